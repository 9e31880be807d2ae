"""Coordinators as processes, and the line of replicas and state managers to them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from statemgr.errors import KafkaUnavailableError, StateError
from statemgr.kafka.ports import Admin
from statemgr.testing.kafka import FakeKafka
from tests.simulation.application import APP, STAGE
from tests.simulation.clocks import ProcessClock
from tests.simulation.lanes import Process
from tests.simulation.network import Network
from tests.simulation.world import World
from towpath.coordinator.coordinator import TRANSIENT, Coordinator
from towpath.coordinator.errors import NotLeadingError, RefusedError, UnknownNameError
from towpath.coordinator.facts import StageFacts
from towpath.coordinator.limits import Limits
from towpath.coordinator.messages import Heartbeat, HeartbeatAnswer, HolderBeat
from towpath.coordinator.topics import prepare_control_topic
from towpath.errors import TowpathError

TICK_S = 0.05
"""Between two turns of a coordinator."""

ADDRESS = "coordinator"
"""Where whoever coordinates is reached; a second one takes over the address, as behind a service name."""

QUICK = Limits(
    silence_s=0.8,
    absent_s=1.5,
    gather_s=0.1,
    prepare_timeout_s=0.4,
    copy_timeout_s=2.0,
    drain_copy_s=0.8,
    release_timeout_s=1.0,
    pause_s=0.4,
    alert_s=0.5,
    told_s=0.3,
    standby_s=0.5,
    reclaim_s=2.0,
    forget_s=8.0,
    fence_retry_s=0.2,
)
"""The coordinator's deadlines in about the same proportions, so that a run of some seconds meets all of them."""


@dataclass
class Coordinators:
    """All coordinators there are or were; the newest has the address."""

    world: World
    kafka: FakeKafka
    network: Network
    partitions: int
    wanted: bool = True
    process: Process | None = None
    current: Coordinator | None = None
    others: list[Process] = field(default_factory=list)
    number: int = 0

    def start(self) -> None:
        """Start a coordinator; one that lives already goes on, but is not talked to any more."""
        if self.process is not None and not self.process.dead:
            self.others.append(self.process)
        self.number += 1
        self.current = None
        self.process = self.world.start(f"{ADDRESS}-{self.number}", self._live)
        self.process.on_death = self._died

    def kill(self, cause: str) -> None:
        """SIGKILL to the one that has the address."""
        if self.process is not None:
            self.world.kill(self.process, cause)

    def steps(self) -> list[str]:
        """Where the moves stand that have not ended, as the coordinator that is talked to sees it."""
        moves = self.current._memory.moves if self.current is not None else ()
        return [str(move.step) for move in moves]

    def died(self, replica: str) -> None:
        """A supervisor reports a dead replica."""
        self._send(replica, lambda coordinator: _heard(lambda: coordinator.died(STAGE, replica)))

    def holder_beat(self, machine: str, address: str) -> None:
        """A state manager says where it is."""
        beat = HolderBeat(address=address)
        self._send(f"holder {machine}", lambda coordinator: _heard(lambda: coordinator.holder(machine, beat)))

    def heartbeat(self, replica: str, beat: Heartbeat, answered: Callable[[HeartbeatAnswer], None]) -> None:
        """A replica's heartbeat; the answer comes back as a message."""

        def take(coordinator: Coordinator) -> None:
            answer = coordinator.heartbeat(STAGE, replica, beat)
            self.network.send(ADDRESS, replica, lambda: answered(answer))

        self._send(replica, take)

    def ask(self, what: str, request: Callable[[Coordinator], object], tries: int = 8) -> None:
        """An operator asks for something; again after a while, if nobody leads."""

        def take(coordinator: Coordinator) -> None:
            try:
                request(coordinator)
                self.world.note("operator", f"{what}: accepted")
            except NotLeadingError:
                if tries:
                    self.world.after(0.15, lambda: self.ask(what, request, tries - 1))
            except RefusedError as error:
                self.world.note("operator", f"{what}: {error}")

        self._send("operator", take)

    def _send(self, source: str, message: Callable[[Coordinator], object]) -> None:
        self.network.send(source, ADDRESS, lambda: self._arrive(message))

    def _arrive(self, message: Callable[[Coordinator], object]) -> None:
        process, coordinator = self.process, self.current
        if process is not None and coordinator is not None and not process.dead:
            self.world.spawn(process, lambda: message(coordinator))

    def _live(self, process: Process) -> None:
        clock = ProcessClock(self.world, process)
        admin = self.kafka.admin()
        self._prepare_log(admin)
        coordinator = Coordinator(
            APP,
            [StageFacts(STAGE, self.partitions, stateful=True)],
            self.kafka,
            clock,
            name=process.name,
            limits=QUICK,
        )
        coordinator.lock = LaneLock(self.world)  # type: ignore[assignment]
        if self.process is process:
            self.current = coordinator
        try:
            with suppress(*TRANSIENT):
                coordinator.start()
            while True:
                coordinator.tick()
                self.world.sleep(TICK_S)
        except (StateError, TowpathError) as error:
            self.world.note(process.name, f"gives up: {error!r}")

    def _prepare_log(self, admin: Admin) -> None:
        """Make the control log; a coordinator that starts without a broker waits for it."""
        while True:
            try:
                prepare_control_topic(admin, APP, 1)
            except KafkaUnavailableError:
                self.world.sleep(LOOK_S)
            else:
                return

    def _died(self, cause: str) -> None:
        self.world.after(0.05 + self.world.rng.random(), self._again)

    def _again(self) -> None:
        if self.wanted and (self.process is None or self.process.dead):
            self.start()


class LaneLock:
    """A re-entrant lock between the lanes of one process, where the real one is between threads."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._owner: object = None
        self._depth = 0

    def __enter__(self) -> None:
        lane = self._world.lane
        while self._owner is not None and self._owner is not lane:
            self._world.sleep(0.0005)
        self._owner = lane
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._owner = None


class SimulatedLink:
    """Implements :class:`towpath.stage.link.Link`: as in reality one heartbeat at a time, beside the replica's loop."""

    def __init__(self, world: World, coordinators: Coordinators, process: Process, replica: str) -> None:
        self._world = world
        self._coordinators = coordinators
        self._replica = replica
        self._beat: Heartbeat | None = None
        self._answer: HeartbeatAnswer | None = None
        self._number = 0
        self._answered = 0
        self._urgent = False
        self._closed = False
        world.spawn(process, self._run)

    def say(self, beat: Heartbeat, *, at_once: bool = False) -> None:
        """See the protocol."""
        self._beat = beat
        self._urgent |= at_once

    def heard(self) -> HeartbeatAnswer | None:
        """See the protocol."""
        answer, self._answer = self._answer, None
        return answer

    def close(self) -> None:
        """See the protocol."""
        self._closed = True
        if self._beat is not None:
            self._exchange(self._beat)

    def _run(self) -> None:
        while not self._closed:
            if self._beat is not None:
                self._urgent = False
                self._exchange(self._beat)
                self._wait(lambda: self._answered == self._number, ANSWER_TIMEOUT_S)
            self._world.sleep(LEAST_INTERVAL_S)
            self._wait(lambda: self._urgent, INTERVAL_S)

    def _wait(self, over: Callable[[], bool], longest_s: float) -> None:
        deadline_s = self._world.now_s + longest_s
        while not over() and not self._closed and self._world.now_s < deadline_s:
            self._world.sleep(LOOK_S)

    def _exchange(self, beat: Heartbeat) -> None:
        self._number += 1
        number = self._number
        self._coordinators.heartbeat(self._replica, beat, lambda answer: self._take(number, answer))

    def _take(self, number: int, answer: HeartbeatAnswer) -> None:
        if number == self._number and not self._closed:  # one that was given up has been replaced by a later one
            self._answer, self._answered = answer, number


def _heard(say: Callable[[], None]) -> None:
    """Say something of a replica; of one that has not joined yet it is refused, which its sender passes over."""
    with suppress(UnknownNameError):
        say()


INTERVAL_S = 0.25
"""Between two heartbeats."""

LEAST_INTERVAL_S = 0.02
"""Between two heartbeats of which the second is urgent."""

LOOK_S = 0.01
"""Between two looks of the heartbeat's lane."""

ANSWER_TIMEOUT_S = 1.0
"""A heartbeat without an answer for this long is given up."""
