"""The stage test driver: the real replica runtime, stepped by hand on an in-memory Kafka."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from statemgr.kafka.ports import TopicSpec
from statemgr.store import MemoryBackend, RocksBackend, RocksSettings, StoreBackend
from statemgr.testing.kafka import FakeKafka, ManualClock
from towpath.query.loading import Plannable
from towpath.query.plan import Edge, QueryPlan, StagePlan
from towpath.stage.phases import Phase
from towpath.stage.settings import StageSettings
from towpath.testing.inputs import InputWriter, Row
from towpath.testing.process import ReplicaProcess
from towpath.testing.records import Record, read_records, topic_formats
from towpath.testing.views import changelog_state, committed_state, lag_of, table_of

SOURCE_PARTITIONS = 4
"""Partitions of source topics for which nothing else is said."""

BUSY_LIMIT_S = 120.0
"""Longest (simulated) time that :meth:`StageDriver.run_until_idle` goes on: a crashed replica's transaction holds
readers back for 10 s, back-off after a lost producer grows to 5 s, a restore gives up after 60 s."""

_ROCKS = RocksSettings(cache_bytes=8 * 1024 * 1024, write_buffer_bytes=2 * 1024 * 1024, lock_timeout_s=0.0)

_NO_ENVIRONMENT = "TOWPATH_STAGE_DRIVER_"
"""Prefix of variables that nobody sets: a test's settings do not depend on where it runs."""


class StillBusyError(AssertionError):
    """The replicas did not become idle; the text says what each of them is at."""


class StageDriver:
    """Runs one stage, or all stages of a query with any number of replicas, in this thread.

    ::

        driver = StageDriver(query, replicas={"count": 2})
        driver.pipe("bids", [{"auction": 7}, {"auction": 7}, {"auction": 9}])
        driver.run_until_idle()
        assert driver.state("count", "count") == {b"7": 2, b"9": 1}
        driver.crash("count", 0)
        driver.pipe("bids", [{"auction": 7}])
        driver.run_until_idle()
        assert driver.rows("counts")[-1] == {"auction": 7, "count": 3, "events": 1}

    What runs is the real replica: planner's operators, transactions, changelog, restore. Time moves only when a
    replica waits, or by :meth:`advance_time`. Faults are planned at ``driver.kafka`` (see
    :class:`statemgr.testing.kafka.FakeKafka`; the clients of replica 0 of stage ``count`` are named ``count-0``), and
    at ``driver.process("count", 0).stores``.

    What it does not simulate: replicas that run at the same moment (they take turns), blocking calls and their
    time-outs, processes and signals, HTTP, torn or delayed writes to a disk, and what the in-memory Kafka leaves out.
    A crash keeps what was written to the stores, in memory too, unless ``lose_stores`` is said.

    Args:
        query: a query, its plan, or the plan of one stage.
        replicas: stage → number of replicas; by default the stage's parallelism.
        backend: where state is kept. ``rocksdb`` needs ``state_dir``.
        state_dir: directory of RocksDB stores; each replica gets its own below it.
        partitions: source topic → partitions; :data:`SOURCE_PARTITIONS` for those that are not named.
        clock: time; by default one that starts in 2023.
        settings: any field of :class:`~towpath.stage.settings.StageSettings`, for all replicas.
    """

    def __init__(
        self,
        query: Plannable | QueryPlan | StagePlan,
        *,
        replicas: Mapping[str, int] | None = None,
        backend: Literal["memory", "rocksdb"] = "memory",
        state_dir: Path | None = None,
        partitions: Mapping[str, int] | None = None,
        clock: ManualClock | None = None,
        **settings: Any,
    ) -> None:
        if backend == "rocksdb" and state_dir is None:
            raise ValueError("backend='rocksdb' needs state_dir=…, for example pytest's tmp_path")
        self.clock = clock or ManualClock()
        self.kafka = FakeKafka(self.clock)
        self._stages = {stage.name: replace(stage, backend=backend) for stage in _stages_of(query)}
        self._state_dir = state_dir if backend == "rocksdb" else None
        self._settings = settings
        self._formats = topic_formats(self._stages.values())
        self._writer = InputWriter(self.kafka, self._stages.values())
        self.kafka.admin().create(_given_topics(self._stages.values(), partitions or {}), 1, 1.0)
        counts = {name: stage.parallelism for name, stage in self._stages.items()} | dict(replicas or {})
        self._processes = {name: self._plan_replicas(name, count) for name, count in counts.items()}

    def pipe(
        self,
        topic: str,
        rows: Iterable[Row],
        *,
        partition: int | None = None,
        keys: Sequence[bytes | None] | None = None,
    ) -> None:
        """Write input records.

        Args:
            topic: a source topic.
            rows: one record each; the rows of an inner edge (dicts only) become one record together.
            partition: where they go; without, each goes by its key, or keyless ones take turns.
            keys: record keys, as many as rows.
        """
        self._writer.write(topic, list(rows), partition, keys)

    def run_once(self) -> int:
        """Let every replica take one turn; a crashed one starts again.

        Returns:
            Kafka records that they took.

        Raises:
            StateError, TowpathError: a replica met what needs an operator's decision; it has failed.
        """
        return sum(process.turn() for process in self._all())

    def run_until_idle(self, limit_s: float = BUSY_LIMIT_S) -> None:
        """Take turns until every replica has processed and committed all its input: the group's lag is 0.

        Raises:
            StillBusyError: not so after ``limit_s`` of simulated time.
            StateError, TowpathError: see :meth:`run_once`.
        """
        deadline_s = self.clock.monotonic_s() + limit_s
        while self.run_once() or not all(map(self._idle, self._all())):
            if self.clock.monotonic_s() > deadline_s:
                raise StillBusyError(f"not idle after {limit_s:g} s: " + "; ".join(map(self._explain, self._all())))

    def output(self, topic: str) -> list[Record]:
        """What a read_committed reader finds in a topic, partition by partition; empty if it does not exist."""
        self.kafka.settle()
        return read_records(self.kafka, topic, self._formats.get(topic))

    def rows(self, topic: str) -> list[Any]:
        """The values of :meth:`output`."""
        return [record.value for record in self.output(topic)]

    def state(self, stage: str, table: str) -> dict[bytes, Any]:
        """Committed state of a table over all running replicas: key → value.

        Raises:
            AssertionError: a key is in the state of two tasks.
        """
        replicas = [process.replica for process in self._processes[stage] if process.replica is not None]
        states = [task.state for replica in replicas for task in replica.owned.values() if task.state is not None]
        return committed_state(states, table_of(self._stages[stage], table))

    def changelog_state(self, stage: str, table: str) -> dict[bytes, Any]:
        """What the changelog alone makes of a table (I5): key → value."""
        plan = self._stages[stage]
        return changelog_state(self.kafka, plan, table_of(plan, table))

    def lag(self, stage: str) -> int:
        """What a lag tool shows for the stage's group: offsets between those committed and the ends of the inputs."""
        return lag_of(self.kafka, self._stages[stage])

    def process(self, stage: str, index: int = 0) -> ReplicaProcess:
        """One replica's process: its stores, its metrics, its phase."""
        return self._processes[stage][index]

    def crash(self, stage: str, index: int = 0, *, lose_stores: bool = False) -> None:
        """Kill a replica without a commit; the next turn starts it again, with or without its stores."""
        process = self.process(stage, index)
        process.crash()
        if lose_stores:
            process.lose_stores()

    def stop(self, stage: str, index: int = 0) -> None:
        """Stop a replica as SIGTERM does, and leave it so."""
        self.process(stage, index).stop()

    def restart(self, stage: str | None = None) -> None:
        """Stop all replicas of a stage (of all stages) and start them again."""
        for name in [stage] if stage is not None else self._processes:
            for process in self._processes[name]:
                process.restart()

    def scale(self, stage: str, count: int) -> None:
        """Stop all replicas of a stage and go on with another number, as a static plan is changed."""
        for process in self._processes[stage]:
            process.stop()
        self._processes[stage] = self._plan_replicas(stage, count)

    def advance_time(self, ms: float) -> None:
        """Let time pass."""
        self.clock.advance(ms / 1000)

    def close(self) -> None:
        """Stop everything and close all stores."""
        for process in self._all():
            process.stop()

    def _all(self) -> list[ReplicaProcess]:
        return [process for processes in self._processes.values() for process in processes]

    def _plan_replicas(self, stage: str, count: int) -> list[ReplicaProcess]:
        plan = self._stages[stage]
        common: dict[str, Any] = {
            "_env_prefix": _NO_ENVIRONMENT,
            "query": plan.app,
            "stage": stage,
            "replica_count": count,
            **self._settings,
        }
        settings = [StageSettings(**common, replica_index=index) for index in range(count)]
        return [ReplicaProcess(plan, each, self.kafka, self.clock, self._backend(each.replica)) for each in settings]

    def _backend(self, replica: str) -> StoreBackend:
        return MemoryBackend() if self._state_dir is None else RocksBackend(self._state_dir / replica, _ROCKS)

    def _idle(self, process: ReplicaProcess) -> bool:
        if process.stopped:
            return True
        replica = process.replica
        return (
            replica is not None
            and replica.phase is Phase.RUNNING
            and lag_of(self.kafka, process.plan, replica.owned) == 0
        )

    def _explain(self, process: ReplicaProcess) -> str:
        replica = process.replica
        if replica is None:
            return f"{process.name} does not run"
        lag = lag_of(self.kafka, process.plan, replica.owned)
        return f"{process.name} is {replica.phase}, {replica.work.what}, tasks {sorted(replica.owned)}, lag {lag}"


def _stages_of(query: Plannable | QueryPlan | StagePlan) -> Sequence[StagePlan]:
    match query:
        case StagePlan():
            return (query,)
        case QueryPlan():
            return query.stages
        case _:
            return query.plan().stages


def _given_topics(stages: Iterable[StagePlan], partitions: Mapping[str, int]) -> list[TopicSpec]:
    """Topics that must exist before the stages start: sources, and outputs that Towpath does not make."""
    outputs = {item.topic: item for stage in stages for item in stage.outputs}
    inputs = {item.topic: item for stage in stages for item in stage.inputs if item.topic not in outputs}
    counts = {topic: item.partitions for topic, item in inputs.items()}
    counts |= {
        topic: None for topic, item in outputs.items() if item.partitions is None and item.edge is not Edge.FORWARD
    }
    return [TopicSpec(topic, partitions.get(topic) or count or SOURCE_PARTITIONS) for topic, count in counts.items()]
