"""An application around a coordinator, in memory: replicas that keep to the protocol, and time that is told to pass.

The replicas have no operators and no state; they own, release, prepare and complete by the control log as real ones do,
and each writes with a transactional producer of its own, so that fences are felt.
"""

from __future__ import annotations

from collections.abc import Callable

from statemgr.control.log import ControlReader
from statemgr.control.records import ControlRecord, Done, Manner, Released, Strategy, control_key, encode_control
from statemgr.control.view import ControlView
from statemgr.errors import ProducerLostError
from statemgr.kafka.ports import TopicSpec
from statemgr.layout import control_topic, transactional_id
from statemgr.testing.clock import ManualClock
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TaskId
from towpath.coordinator.coordinator import Coordinator
from towpath.coordinator.facts import StageFacts
from towpath.coordinator.messages import Heartbeat, HeartbeatAnswer, ScaleRequest, TaskEpoch, TaskReport
from towpath.coordinator.topics import prepare_control_topic

APP = "kc"
STAGE = "count"
OUTPUT = "counts"
STEP_S = 0.05
BEAT_S = 0.25


class Replica:
    """One replica.

    Attributes:
        owned: partition → epoch.
        alive: whether it does anything.
        beats: whether the coordinator hears it.
        releases: whether it lets go of what is assigned away.
        prepares: whether it says "ready".
        completes: whether it says "done".
        answer: newest answer of the coordinator.
    """

    def __init__(self, application: Application, name: str, life: int = 1) -> None:
        self.name = name
        self.owned: dict[int, int] = {}
        self.alive = self.beats = self.releases = self.prepares = self.completes = True
        self.draining = False
        self.stopped = False
        self.answer: HeartbeatAnswer | None = None
        self.hints: list[int] = []
        self._application = application
        self._life = life
        self._done: set[tuple[int, int]] = set()
        self._begin()

    def _begin(self) -> None:
        """Fence the former self, then read what is ours (R3)."""
        kafka, client = self._application.kafka, f"{self.name}-{self._life}"
        self._producer = kafka.producer(transactional_id=transactional_id(APP, STAGE, self.name), name=client)
        self._producer.init_transactions(1.0)
        self._reader = ControlReader(kafka, APP, f"{client}-control", self._application.clock)
        self._reader.read_to_end()
        self.owned = {}
        for task, tenure in [(t, u) for t in list(self._view.tasks) for u in self._view.unended(t)]:
            if tenure.owner == self.name:
                self._write(Released(STAGE, task.partition, tenure.epoch, self.name, True, -1, None))

    @property
    def _view(self) -> ControlView:
        return self._reader.view

    def turn(self) -> None:
        """Let go, take up, complete."""
        if not self.alive:
            return
        try:
            self._reader.poll()
            self._let_go()
            self._take_up()
        except ProducerLostError:
            self._begin()

    def _let_go(self) -> None:
        for partition, epoch in list(self.owned.items()):
            if self.releases and self._view.of(TaskId(STAGE, partition)).assigned_elsewhere(self.name, epoch):
                self._write(Released(STAGE, partition, epoch, self.name, True, 7, None))
                del self.owned[partition]

    def _take_up(self) -> None:
        for task in list(self._view.owned_by(STAGE, self.name)):
            epoch = self._view.of(task).epoch
            if task.partition not in self.owned and self._view.may_start(task, self.name):
                self.owned[task.partition] = epoch
            if self.completes and self.owned.get(task.partition) == epoch and (task.partition, epoch) not in self._done:
                self._done.add((task.partition, epoch))
                self._write(Done(STAGE, task.partition, epoch, self.name))

    def _write(self, record: ControlRecord) -> None:
        self._producer.begin()
        self._producer.produce(control_topic(APP), 0, control_key(record), encode_control(record))
        self._producer.commit(1.0)

    def work(self) -> None:
        """Process a row: what a fenced owner can't do."""
        self._producer.begin()
        self._producer.produce(OUTPUT, 0, b"key", self.name.encode())
        self._producer.commit(1.0)

    def leave_open(self) -> None:
        """Stop within a transaction (R18)."""
        self._producer.begin()
        self._producer.produce(OUTPUT, 0, b"key", b"never seen")
        self.alive = self.beats = False

    def beat(self, coordinator: Coordinator) -> None:
        """Say what there is to say."""
        if not self.beats:
            return
        ready = self.answer.prepare if self.answer is not None and self.prepares else []
        self.answer = coordinator.heartbeat(
            STAGE,
            self.name,
            Heartbeat(
                incarnation=f"{self.name}-{self._life}",
                state_address=f"{self.name}:7000",
                phase="stopped" if self.stopped else "running",
                draining=self.draining,
                control_offset=self._view.next_offset,
                tasks=[
                    TaskReport(partition=partition, epoch=epoch, state="running", complete=True)
                    for partition, epoch in self.owned.items()
                ],
                ready=[TaskEpoch(partition=hint.partition, epoch=hint.epoch) for hint in ready],
            ),
        )
        self.hints += [hint.partition for hint in self.answer.prepare]

    def die(self) -> None:
        """SIGKILL."""
        self.alive = self.beats = False

    def restart(self) -> Replica:
        """A new life under the same name."""
        self.die()
        return self._application.add(self.name, self._life + 1)


class Application:
    """Kafka, coordinators and replicas, driven in steps."""

    def __init__(self, partitions: int = 4, *, marker_lag_s: float = 0.0) -> None:
        self.clock = ManualClock()
        self.kafka = FakeKafka(self.clock, marker_lag_s=marker_lag_s)
        self.partitions = partitions
        self.replicas: dict[str, Replica] = {}
        prepare_control_topic(self.kafka.admin(), APP, 1)
        self.kafka.admin().create([TopicSpec(OUTPUT, 1)], 1, 1.0)
        self.coordinators: list[Coordinator] = []
        self.heard_by = self.coordinate("c1")
        self._beat_s = 0.0

    def coordinate(self, name: str) -> Coordinator:
        """Start a coordinator, to which replicas talk from now on."""
        made = Coordinator(APP, [StageFacts(STAGE, self.partitions, stateful=True)], self.kafka, self.clock, name=name)
        made.start()
        self.coordinators.append(made)
        self.heard_by = made
        return made

    def add(self, name: str, life: int = 1) -> Replica:
        """Start a replica."""
        self.replicas[name] = Replica(self, name, life)
        return self.replicas[name]

    def scale(self, replicas: int | None, strategy: Strategy = Strategy.HYBRID) -> None:
        """What ``towpath scale`` asks for."""
        self.heard_by.scale(ScaleRequest(stage=STAGE, replicas=replicas, manner=Manner(strategy=strategy)))

    def step(self) -> None:
        """One moment: everybody gets a turn."""
        for coordinator in self.coordinators:
            coordinator.tick()
        for replica in list(self.replicas.values()):
            replica.turn()
        if self.clock.monotonic_s() >= self._beat_s:
            self._beat_s = self.clock.monotonic_s() + BEAT_S
            for replica in list(self.replicas.values()):
                replica.beat(self.heard_by)
        self._check_single_owners()
        self.clock.advance(STEP_S)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        for _ in range(round(seconds / STEP_S)):
            self.step()

    def until(self, what: str, look: Callable[[], bool], limit_s: float = 20.0) -> float:
        """Let time pass until something is so; gives how long that took."""
        began_s = self.clock.monotonic_s()
        while not look():
            assert self.clock.monotonic_s() - began_s < limit_s, f"{what}: not within {limit_s} s. {self.describe()}"
            self.step()
        return self.clock.monotonic_s() - began_s

    def settle(self) -> None:
        """Let time pass until every replica was heard and every task runs where it should."""
        self.run(BEAT_S + STEP_S)
        self.until("the stage is settled", self.settled)

    def settled(self) -> bool:
        """Whether every task runs where it should, by the coordinator's word and in truth."""
        from towpath.coordinator.views import stage_status

        with self.heard_by.look() as facts:
            said = stage_status(facts, facts.stages[STAGE]).settled
        owned = sorted(partition for replica in self.working() for partition in replica.owned)
        return said and owned == list(range(self.partitions))

    def working(self) -> list[Replica]:
        return [replica for replica in self.replicas.values() if replica.alive]

    def owners(self) -> dict[int, str]:
        return {partition: replica.name for replica in self.working() for partition in sorted(replica.owned)}

    def counts(self) -> dict[str, int]:
        return {replica.name: len(replica.owned) for replica in self.working()}

    def log(self) -> list[dict]:
        """Every control record there is, in order."""
        import msgspec

        entries = self.kafka.entries(control_topic(APP), 0)
        return [msgspec.json.decode(entry.value) for entry in entries if entry.value is not None]

    def describe(self) -> str:
        from towpath.coordinator.views import stage_status

        with self.heard_by.look() as facts:
            return f"{stage_status(facts, facts.stages[STAGE])}; {self.counts()}; {self.heard_by.problem}"

    def _check_single_owners(self) -> None:
        """I1: nobody who may still write owns what somebody else owns."""
        seen: dict[int, str] = {}
        for replica in self.working():
            for partition, epoch in replica.owned.items():
                if replica.releases and replica.beats:
                    assert partition not in seen, f"{partition} belongs to {seen[partition]} and {replica.name}@{epoch}"
                    seen[partition] = replica.name
