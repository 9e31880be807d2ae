"""A coordinated application as real processes: a coordinator, and pods that come and go."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from statemgr.control.records import Assigned, Strategy, decode_control
from statemgr.control.view import ControlView
from statemgr.layout import control_topic, split_changelog_key
from statemgr.store import RocksBackend, RocksSettings
from statemgr.types import TaskId
from tests.harness.deployment import DRAIN_LIMIT_S as WORK_OFF_LIMIT_S
from tests.harness.deployment import await_worked_off, read_outputs
from tests.harness.load import create_topic
from tests.harness.pods import DRAIN_LIMIT_S, CoordinatorProcess, Pod, StageProcess
from tests.harness.processes import LoggedProcess
from tests.harness.topics import read_topic
from tests.harness.waiting import wait_for
from towpath.query.loading import load_query
from towpath.query.plan import QueryPlan

SETTLE_LIMIT_S = 60.0
"""Until every task runs at its owner with all of its state: a fence, a restart and a restore, on two busy cores."""

_BIN_BYTES = 1


class Cluster:
    """A coordinated application; leaves no process behind when used through :func:`clustered`.

    Attributes:
        plan: the stages.
        coordinator: the coordinator's process.
        pods: name → pod, those that have left included.
        source: the source topic.
    """

    def __init__(
        self,
        query: str,
        bootstrap: str,
        work_dir: Path,
        *,
        settings: Mapping[str, Any] | None = None,
        options: Sequence[str] = (),
        coordinator_options: Sequence[str] = (),
        source_partitions: int = 8,
    ) -> None:
        """``options``: of every ``towpath stage``; ``settings``: arguments of the query's ``build()``."""
        self.plan: QueryPlan = load_query(query, settings)
        self.bootstrap = bootstrap
        self.source = self.plan.stages[0].inputs[0].topic
        self.pods: dict[str, Pod] = {}
        self._query = query
        self._work_dir = work_dir
        self._source_partitions = source_partitions
        self._sets = [part for name, value in (settings or {}).items() for part in ("--set", f"{name}={value}")]
        self._options = options
        self.coordinator = CoordinatorProcess(query, work_dir, bootstrap, [*self._sets, *coordinator_options])

    def start(self, sizes: Mapping[str, int] | None = None) -> None:
        """Make the source topic, start coordinator and pods: one per stage, or as many as ``sizes`` says."""
        create_topic(self.bootstrap, self.source, self._source_partitions)
        self.coordinator.start()
        for stage in self.plan.names:
            self.scale(stage, (sizes or {}).get(stage, 1))

    def working(self, stage: str) -> list[Pod]:
        """Pods of a stage that were not asked to leave, oldest name first."""
        return [pod for pod in self.pods.values() if pod.stage_name == stage and not pod.leaving]

    def scale(self, stage: str, count: int) -> list[Pod]:
        """Start pods, or ask the newest to leave; returns at once.

        Returns:
            Those that were started or asked.
        """
        working = self.working(stage)
        if count < len(working):
            for pod in working[count:]:
                pod.drain()
            return working[count:]
        started = [self._pod(stage) for _ in range(count - len(working))]
        for pod in started:
            pod.start()
        return started

    def travel_by(self, stage: str, strategy: Strategy) -> None:
        """Say how a stage's state travels from now on."""
        self.coordinator.await_leading()

        def ask() -> bool:
            answer = self.coordinator.post("/scale", {"stage": stage, "manner": {"strategy": strategy}})
            return isinstance(answer, dict) and "term" in answer

        wait_for(f"state travels by {strategy}", ask, SETTLE_LIMIT_S, self.describe)

    def tend(self) -> None:
        """What supervisors do without being asked."""
        for pod in self.pods.values():
            pod.tend()

    @property
    def processes(self) -> list[LoggedProcess]:
        """Every process, dead ones included."""
        return [self.coordinator, *(process for pod in self.pods.values() for process in pod.processes)]

    def await_settled(self, limit_s: float = SETTLE_LIMIT_S, *, complete: bool = True) -> None:
        """Wait until every task runs at its owner; and, unless not ``complete``, with all of its state there."""

        def left() -> list[str]:
            return self.unsettled(complete=complete)

        def look() -> bool:
            self.tend()
            return left() == []

        state = " with all of its state" if complete else ""
        wait_for(f"every task runs{state}", look, limit_s, lambda: f"{left()}\n{self.describe()}")

    def all_are_members(self, stage: str) -> bool:
        """Whether the coordinator lets exactly those pods own tasks that were not asked to leave."""
        answer = self.coordinator.get("/topology")
        stages = [] if answer is None or answer[0] != 200 else answer[1]["stages"]
        there = sorted(pod.name for pod in self.working(stage))
        return any(each["stage"] == stage and sorted(each["members"]) == there for each in stages)

    def unsettled(self, *, complete: bool = True) -> list[str]:
        """What keeps the application from being at rest, by the coordinator's word.

        Args:
            complete: whether state that is still elsewhere does.
        """
        answer = self.coordinator.get("/topology")
        if answer is None or answer[0] != 200:
            return ["the coordinator does not answer"]
        stages = {stage["stage"]: stage for stage in answer[1]["stages"]}
        said = [f"{name} is not listed" for name in self.plan.names if name not in stages]
        for name, stage in stages.items():
            there = sorted(pod.name for pod in self.working(name))
            if sorted(stage["members"]) != there:
                said.append(f"{name}: members {stage['members']}, there are {there}")
            if not stage["settled"]:
                said.append(f"{name}: {stage['waiting_for']}")
            if complete and stage["incomplete"]:
                said.append(f"{name}: {stage['incomplete']} tasks need others' copies")
        return said

    def drain(self, limit_s: float = WORK_OFF_LIMIT_S) -> None:
        """Wait until all input is worked off; no load may be running."""
        await_worked_off(self.plan, self.bootstrap, self.describe, limit_s)

    def stop(self) -> None:
        """Ask all pods to leave, then stop the coordinator; requires that all end well."""
        for pod in self.pods.values():
            if not pod.leaving and pod.stage.alive:
                pod.drain()

        def look() -> bool:
            self.tend()
            return all(pod.gone for pod in self.pods.values())

        wait_for("all pods have left", look, DRAIN_LIMIT_S, self.describe)
        for pod in self.pods.values():
            pod.require_clean_exits()
        self.coordinator.stop()

    def require_clean_leaves(self) -> None:
        """Every pod that was asked to leave has done so, with status 0 unless it was struck."""
        for pod in self.pods.values():
            if pod.leaving:
                pod.require_clean_exits()

    def freeze(self) -> None:
        """Kill everything at once, so that nothing moves any more, and stores are as the last commits left them."""
        for process in self.processes:
            process.close()

    def outputs(self) -> list[dict[str, Any]]:
        """Committed records of the last stage's sink."""
        return read_outputs(self.bootstrap, self.plan.stages[-1].outputs[0].topic)

    def control(self) -> tuple[ControlView, list[Assigned]]:
        """The control log, and all its assignments in order."""
        view, assigned = ControlView(), []
        for record in read_topic(self.bootstrap, control_topic(self.plan.app)):
            view.apply(record.offset(), record.key(), record.value())
            decoded = decode_control(record.key(), record.value())
            if isinstance(decoded, Assigned):
                assigned.append(decoded)
        return view, assigned

    def state(self, stage: str, table: str) -> dict[str, Any]:
        """Key → value of a table, out of the stores that the control log names; the stage must have stopped."""
        view, _ = self.control()
        entries: dict[str, Any] = {}
        for task, told in view.tasks.items():
            if task.stage == stage and told.owner is not None:
                for key, value in self._entries(task, told.owner, told.epoch, table):
                    assert key not in entries, f"key {key} of {table} is in more than one task"
                    entries[key] = value
        return entries

    def describe(self) -> str:
        """What a message should say of the processes."""
        return "\n".join(process.describe() for process in self.processes)

    def close(self) -> None:
        """Leave no process behind."""
        self.freeze()

    def _pod(self, stage: str) -> Pod:
        """A pod under the lowest free name; one that has left comes back with the disk that it had."""
        index = 0
        while (pod := self.pods.get(name := f"{stage}-{index}")) is not None and not (pod.leaving and pod.gone):
            index += 1
        if pod is None:
            process = StageProcess(
                self._query,
                stage,
                name,
                self._work_dir,
                self.bootstrap,
                self.coordinator.url,
                [*self._sets, *self._options],
            )
            stateful = self.plan.stage(stage).stateful
            pod = Pod(self.plan.app, stateful, process, self._work_dir, self.coordinator)
        self.pods.pop(name, None)
        self.pods[name] = pod
        return pod

    def _entries(self, task: TaskId, owner: str, epoch: int, table: str) -> Iterator[tuple[str, Any]]:
        names = {item.id: item.name for item in self.plan.stage(task.stage).tables}
        root = self.pods[owner].stage.state_root / self.plan.app / owner
        backend = RocksBackend(root, RocksSettings(lock_timeout_s=0.0))
        try:
            with backend.open(task, epoch).scan() as entries:
                for stored, value in entries:
                    number, key = split_changelog_key(stored[_BIN_BYTES:])
                    if names.get(number) == table:
                        yield key.decode(), msgspec.json.decode(value)
        finally:
            backend.close()


def hand_overs(assigned: Sequence[Assigned], stage: str) -> dict[int, int]:
    """Partition → how often a task of the stage has changed its owner."""
    owners: dict[int, list[str]] = {}
    for record in assigned:
        if record.stage == stage:
            owners.setdefault(record.partition, []).append(record.owner)
    return {
        partition: sum(before != after for before, after in itertools.pairwise(names))
        for partition, names in owners.items()
    }


@contextlib.contextmanager
def clustered(cluster: Cluster, sizes: Mapping[str, int] | None = None) -> Iterator[Cluster]:
    """Start a cluster, and end it whatever happens.

    An error gets the processes' last words as a note; their logs get the stacks of all their threads.
    """
    try:
        cluster.start(sizes)
        yield cluster
    except BaseException as error:
        error.add_note(cluster.describe())
        for process in cluster.processes:
            process.abort()
        raise
    finally:
        cluster.close()
