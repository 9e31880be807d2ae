"""State managers as processes."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from statemgr.control.log import ControlReader
from statemgr.errors import KafkaUnavailableError, RestoreStalledError, StateError
from statemgr.migration.ports import Address
from statemgr.sidecar.service import ServiceSettings, StateService
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TaskId
from tests.simulation.application import APP
from tests.simulation.clocks import ProcessClock
from tests.simulation.coordinators import Coordinators
from tests.simulation.disks import Disk, DiskReaders
from tests.simulation.holders import Directory, Request, address_of, listener, outcome_of, shown
from tests.simulation.lanes import Process
from tests.simulation.world import SimulationError, World

LOOK_S = 0.2
"""Between two looks at the control log."""

LEASE_S = 0.6
"""Of live reads."""

BEAT_S = 1.0
"""Between two heartbeats to the coordinator."""

SMALL = ServiceSettings(lease_s=LEASE_S, look_up_bytes=60, chunk_bytes=60)
"""Answers of a few entries, so that they come in several parts."""


@dataclass(eq=False)
class StateManager:
    """The state manager of a machine; started again by its supervisor when it dies.

    Attributes:
        stale_s: its secondaries miss what was written up to this time ago with some probability.
    """

    machine: str
    disk: Disk
    world: World
    kafka: FakeKafka
    directory: Directory
    coordinators: Coordinators
    on_delete: Callable[[TaskId, int, str], None]
    wanted: bool = False
    process: Process | None = None
    service: StateService | None = None
    reader: ControlReader | None = field(default=None, repr=False)

    @property
    def address(self) -> str:
        """Where it is reached."""
        return address_of(self.machine)

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        return self.process is not None and not self.process.dead

    def start(self) -> None:
        """Start it, if it does not run."""
        self.wanted = True
        if not self.running:
            self.process = self.world.start(listener(self.address), self._live)
            self.process.on_death = self._died

    def kill(self, cause: str) -> None:
        """SIGKILL."""
        if self.process is not None:
            self.world.kill(self.process, cause)

    def _live(self, process: Process) -> None:
        clock = ProcessClock(self.world, process)
        reader = self.reader = ControlReader(self.kafka, APP, f"{self.machine}-state", clock)
        service = self.service = StateService(
            DiskReaders(self.disk, self._lags),
            lambda: reader.view,
            clock,
            self.machine,
            caught_up_s=lambda: reader.caught_up_s,
            pause=self.world.sleep,
            settings=SMALL,
        )
        self.directory.inboxes[self.address] = lambda request: self._take(process, service, request)
        beat_s = 0.0
        while True:
            self._look(reader)
            for task, epoch in service.tidy():
                self.world.note(process.name, f"deletes {task}@{epoch}")
                self.on_delete(task, epoch, self.machine)
            if self.world.now_s >= beat_s:
                beat_s = self.world.now_s + BEAT_S
                self.coordinators.holder_beat(self.machine, self.address)
            self.world.sleep(LOOK_S)

    def _look(self, reader: ControlReader) -> None:
        try:
            reader.read_to_end(LOOK_S)
        except RestoreStalledError:
            return  # a transaction holds the log's end back: what is confirmed meanwhile is over with the lease
        except KafkaUnavailableError:
            reader.close()  # as the real one does, which begins with a new consumer

    def _take(self, process: Process, service: StateService, request: Request) -> None:
        self.world.spawn(process, lambda: self._answer(process, service, request))

    def _answer(self, process: Process, service: StateService, request: Request) -> None:
        outcome = outcome_of(lambda: request.ask(service))
        if self.world.trace:
            self.world.note(process.name, f"{request.what}: {shown(outcome)}")
        if request.address is not None:
            self._check(service, request.address, outcome)
        request.answer(outcome)

    def _check(self, service: StateService, address: Address, outcome: Callable[[], object]) -> None:
        """An answer is for the task's newest owner as far as the log was read here, or for the next (R8)."""
        view = service._view().of(address.task)
        if address.target >= view.epoch:
            return
        with suppress(StateError):
            outcome()
            text = f"R8: {self.machine} answered epoch {address.target} of {address.task}, which is at {view.epoch}"
            self.world.fail(SimulationError(text))

    def _lags(self, task: TaskId, epoch: int) -> bool:
        return self.world.rng.random() < 0.1

    def _died(self, cause: str) -> None:
        self.directory.inboxes.pop(self.address, None)
        self.service = None
        self.world.after(0.05 + self.world.rng.random() * 0.5, self._again)

    def _again(self) -> None:
        if self.wanted:
            self.start()
