"""A whole cluster in one thread: real coordinator, replicas and state managers, on Kafka and clocks in memory.

Everybody takes a turn in each step. What is asked of state managers, which rows are processed and what the control log
says is written down in one journal, in the order in which it happened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from statemgr.control.log import ControlReader
from statemgr.control.records import Manner
from statemgr.kafka.ports import TopicSpec
from statemgr.layout import changelog_key, store_key
from statemgr.migration.ports import Spawn
from statemgr.sidecar.readers import MemoryReaders, ReaderBackend
from statemgr.sidecar.rocks_readers import RocksReaders
from statemgr.sidecar.service import ServiceSettings, StateService
from statemgr.state import TaskState
from statemgr.store import MemoryBackend, RocksBackend, RocksSettings, StoreBackend
from statemgr.testing.kafka import FakeKafka, ManualClock
from statemgr.types import TaskId
from tests.unit.towpath.stage.journal import Journal
from tests.unit.towpath.stage.plans import APP, SINK, SOURCE, count_stage
from tests.unit.towpath.stage.watched import DirectLink, TimedBackend, WatchedClient, WatchedProcessor
from towpath.coordinator.coordinator import Coordinator
from towpath.coordinator.errors import UnknownNameError
from towpath.coordinator.facts import StageFacts
from towpath.coordinator.limits import Limits
from towpath.coordinator.messages import HolderBeat, MoveRequest, ScaleRequest
from towpath.coordinator.topics import prepare_control_topic
from towpath.coordinator.views import stage_status
from towpath.query.plan import StagePlan
from towpath.stage.background import at_once
from towpath.stage.coordinated import Coordinated
from towpath.stage.joining import Identity, Lines, wire
from towpath.stage.metrics import StageMetrics
from towpath.stage.replica import Controls, Replica
from towpath.stage.settings import StageSettings
from towpath.stage.tasks import OwnedTask
from towpath.testing.inputs import InputWriter
from towpath.testing.records import Record, read_records, topic_formats
from towpath.testing.views import changelog_state, committed_state, lag_of, table_of
from towpath.tracing import NO_SPANS, Spans

STAGE = "count"
TASKS = 4

QUICK = Limits(gather_s=0.1, prepare_timeout_s=0.5, copy_timeout_s=30.0, told_s=0.2, release_timeout_s=1.5)
"""The coordinator's deadlines, of which no test waits for one that it does not mean to."""

_ROCKS = RocksSettings(cache_bytes=8 * 1024 * 1024, write_buffer_bytes=2 * 1024 * 1024, lock_timeout_s=0.0)


@dataclass(eq=False)
class Node:
    """A machine: a disk, a replica, a state manager.

    Attributes:
        asleep: the replica gets no turns, and says nothing.
        stuck: the replica gets no turns, though its heartbeats go on.
        stopping: it was asked to stop.
        left: it has stopped.
    """

    name: str
    backend: TimedBackend
    readers: ReaderBackend
    control: ControlReader
    service: StateService
    link: DirectLink
    metrics: StageMetrics = field(init=False)
    coordinated: Coordinated = field(init=False)
    replica: Replica = field(init=False)
    asleep: bool = False
    stuck: bool = False
    stopping: bool = False
    left: bool = False

    @property
    def works(self) -> bool:
        """Whether the replica gets turns."""
        return not self.asleep and not self.stuck

    def owned(self) -> dict[int, int]:
        """Partition → epoch of the tasks that run here."""
        return {} if self.left else {partition: task.epoch for partition, task in self.replica.owned.items()}

    def restored(self) -> float:
        """Changelog records that were applied here by restores."""
        labels = {"stage": STAGE, "replica": self.name}
        return self.metrics.registry.get_sample_value("towpath_restored_records_total", labels) or 0.0

    def commits(self) -> float:
        """Transactions that it has committed."""
        labels = {"stage": STAGE, "replica": self.name}
        return self.metrics.registry.get_sample_value("towpath_commits_total", labels) or 0.0


class Cluster:
    """The whole application; see the module.

    Args:
        manner: how state travels.
        plan: one stage, that reads :data:`SOURCE`; by default one that counts auctions.
        state_dir: where RocksDB stores are kept; None: stores in memory.
        chunk_bytes: size of a state manager's chunks; small ones make many.
        limits: the coordinator's deadlines.
        spawn: runs what replicas do beside their loops.
        rebuild: makes scratch bases.
        spans: gives what coordinator and replicas trace with.
    """

    def __init__(
        self,
        manner: Manner,
        *,
        plan: StagePlan | None = None,
        state_dir: Path | None = None,
        chunk_bytes: int = 1 << 18,
        limits: Limits = QUICK,
        spawn: Spawn = at_once,
        rebuild: Spawn = at_once,
        spans: Callable[[ManualClock], Spans] = lambda _: NO_SPANS,
    ) -> None:
        self.clock = ManualClock()
        self.spans = spans(self.clock)
        self.kafka = FakeKafka(self.clock)
        self.plan = plan or count_stage(partitions=TASKS, source_partitions=TASKS)
        self.kafka.admin().create([TopicSpec(SOURCE, TASKS)], 1, 1.0)
        prepare_control_topic(self.kafka.admin(), APP, 1)
        self.journal = Journal(self.kafka)
        self.nodes: dict[str, Node] = {}
        self.services: dict[str, StateService] = {}
        self.cut: set[str] = set()
        self.sent: list[dict[str, Any]] = []
        self._state_dir = state_dir
        self._spawn = spawn
        self._rebuild = rebuild
        self._settings = ServiceSettings(chunk_bytes=chunk_bytes)
        self._writer = InputWriter(self.kafka, [self.plan])
        stage = StageFacts(STAGE, TASKS, stateful=True)
        self.coordinator = Coordinator(APP, [stage], self.kafka, self.clock, limits=limits, spans=self.spans)
        self.coordinator.start()
        self.ask(manner=manner)

    # --- what happens ---

    def add(self, name: str) -> Node:
        """Start a replica with its state manager."""
        backend, readers = self._stores(name)
        control = ControlReader(self.kafka, APP, f"{name}-manager", self.clock)
        service = StateService(
            readers,
            partial(_current, control),
            self.clock,
            name,
            caught_up_s=self.clock.monotonic_s,
            settings=self._settings,
        )
        node = Node(name, TimedBackend(backend, self.clock), readers, control, service, DirectLink())
        self.nodes[name], self.services[name] = node, service
        self._start(node)
        return node

    def _start(self, node: Node) -> None:
        settings = StageSettings(
            _env_prefix="TOWPATH_STRATEGIES_",
            query=APP,
            stage=STAGE,
            coordinator="http://coordinator",
            replica_name=node.name,
            json_batch_records=64 * 1200,  # the first batch is a 64th
            cache_entries=1,  # of a batch that large no use is remembered
            drain_s=600.0,
        )
        node.metrics = StageMetrics(STAGE, node.name)
        lines = Lines(
            Identity(STAGE, node.name, f"{node.name}-1"),
            WatchedClient(self, node.name),
            node.link,
            {},
            lambda: f"{node.name}:1",
            self._spawn,
            self._rebuild,
            lambda: False,
            self.clock.advance,
            lambda: None,
            self.spans,
        )
        node.coordinated = wire(self.plan, settings, self.kafka, node.backend, self.clock, node.metrics, lines)
        node.replica = Replica(
            self.plan,
            settings,
            self.kafka,
            node.backend,
            self.clock,
            node.metrics,
            Controls(lambda: node.stopping, partial(self._pause, node), sleep=self.clock.advance),
            partial(WatchedProcessor, self, node.name),
            node.coordinated,
        )

    def ask(self, *, replicas: int | None = None, manner: Manner | None = None) -> None:
        """What ``towpath scale`` asks for."""
        self.coordinator.scale(ScaleRequest(stage=STAGE, replicas=replicas, manner=manner))

    def move(self, partition: int, replica: str) -> None:
        """What ``towpath move`` asks for."""
        self.coordinator.move(MoveRequest(stage=STAGE, partition=partition, replica=replica))

    def hurry(self) -> None:
        """Let all state come that is still elsewhere, whatever the strategy."""
        for partition in self.owners():
            migration = self.task(partition).migration
            if migration is not None:
                migration.hurry()

    def drain(self, name: str) -> None:
        """SIGTERM to a replica."""
        self.nodes[name].stopping = True

    def write(self, rows: Iterable[dict[str, Any]]) -> None:
        """Write input; an auction's rows go to the partition of its number."""
        for row in rows:
            self._writer.write(SOURCE, [row], row["auction"] % TASKS, None)
            self.sent.append(row)

    def step(self) -> None:
        """Everybody gets a turn."""
        self.coordinator.tick()
        for node in list(self.nodes.values()):
            if not node.asleep:
                self._turn(node)
        self._check_owners()
        self.clock.advance(0.005)

    def until(self, what: str, look: Callable[[], bool], limit_s: float = 30.0) -> None:
        """Take steps until something is so."""
        end_s = self.clock.monotonic_s() + limit_s
        while not look():
            assert self.clock.monotonic_s() < end_s, f"{what}: not within {limit_s} s. {self.describe()}"
            self.step()

    def settle(self, limit_s: float = 300.0) -> None:
        """Take steps until every task runs where it should, and has all of its state; everybody's waits add up."""
        self.until("all tasks are where they should be, and done", self.settled, limit_s)

    def rest(self) -> None:
        """Take steps until all input is processed, committed and shown, whatever state is still elsewhere."""
        self.until("all input is processed", lambda: lag_of(self.kafka, self.plan) == 0 and self._in_place())

    # --- what can be seen ---

    def settled(self) -> bool:
        return self._in_place() and all(self.coordinator.view.of(TaskId(STAGE, n)).complete for n in range(TASKS))

    def owners(self) -> dict[int, str]:
        """Partition → name of the replica that runs it."""
        return {partition: node.name for node in self.nodes.values() for partition in node.owned()}

    def epochs(self) -> dict[int, int]:
        """Partition → epoch by the log."""
        return {number: self.coordinator.view.of(TaskId(STAGE, number)).epoch for number in range(TASKS)}

    def task(self, partition: int) -> OwnedTask:
        """A task at its owner."""
        return self.nodes[self.owners()[partition]].replica.owned[partition]

    def progress(self, partition: int) -> dict[str, Any]:
        """How far a task's state has come."""
        task = self.task(partition)
        return task.migration.report() if task.migration is not None else {}

    def state(self) -> dict[bytes, Any]:
        """Committed state over all replicas."""
        found = [task.state for node in self.nodes.values() if not node.left for task in node.replica.owned.values()]
        states: list[TaskState] = [state for state in found if state is not None]
        return committed_state(states, self.plan.tables[0])

    def output(self) -> list[Record]:
        return read_records(self.kafka, SINK, topic_formats([self.plan])[SINK])

    def assert_exact(self) -> None:
        """Input, output and state equal those of one batch over all input (I2, I5)."""
        self.settle()
        self.rest()
        expected = {str(key).encode(): n for key, n in Counter(row["auction"] for row in self.sent).items()}
        assert self.state() == expected
        assert changelog_state(self.kafka, self.plan, table_of(self.plan, self.plan.tables[0].name)) == expected
        counts: dict[int, list[int]] = {}
        for record in self.output():
            counts.setdefault(record.value["auction"], []).append(record.value["count"])
        assert counts == {int(key): list(range(1, n + 1)) for key, n in expected.items()}

    def describe(self) -> str:
        with self.coordinator.look() as facts:
            said = stage_status(facts, facts.stages[STAGE])
        owned = {name: node.owned() for name, node in self.nodes.items()}
        return f"{said}; owned: {owned}; progress: {[self.progress(n) for n in self.owners()]}"

    def close(self) -> None:
        """Let go of files."""
        for node in self.nodes.values():
            node.service.close()
            node.backend.close()

    # --- within a step ---

    def _pause(self, node: Node, seconds: float) -> None:
        """A stop request ends it."""
        if not node.stopping:
            self.clock.advance(seconds)

    def _turn(self, node: Node) -> None:
        if not node.left and not node.stuck:
            if node.replica._may_leave():
                node.replica.finish()
                node.left = True
            else:
                node.replica.turn()
        if node.link.beat is not None:
            answer = self.coordinator.heartbeat(STAGE, node.name, node.link.beat)
            node.link.answer = answer if not node.left else None
        self._tidy(node)

    def _tidy(self, node: Node) -> None:
        if node.name not in self.services:
            return
        node.service.tidy()
        if node.left and not node.service.needed(own=False):
            del self.services[node.name]
            return
        with suppress(UnknownNameError):  # before its stage has joined
            self.coordinator.holder(node.name, HolderBeat(address=f"{node.name}:1"))

    def _in_place(self) -> bool:
        with self.coordinator.look() as facts:
            said = stage_status(facts, facts.stages[STAGE]).settled
        return said and sorted(self.owners()) == list(range(TASKS))

    def _check_owners(self) -> None:
        """I1: nobody who may still write owns what somebody else owns."""
        owned = [partition for node in self.nodes.values() if node.works for partition in node.owned()]
        assert len(owned) == len(set(owned)), f"two owners: {self.describe()}"

    def _stores(self, name: str) -> tuple[StoreBackend, ReaderBackend]:
        if self._state_dir is None:
            stores = MemoryBackend()
            return stores, MemoryReaders(stores)
        root = self._state_dir / name
        return RocksBackend(root, _ROCKS), RocksReaders(root)


def _current(control: ControlReader) -> Any:
    control.poll()
    return control.view


def rows_of(auctions: Iterable[int]) -> list[dict[str, Any]]:
    """Input rows."""
    return [{"auction": auction} for auction in auctions]


def stored(auction: int) -> bytes:
    """Store key of an auction's count."""
    return store_key(changelog_key(0, str(auction).encode()))
