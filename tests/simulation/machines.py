"""A machine: a disk, a replica, a state manager, and the supervisor that starts them again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from statemgr.errors import MissingStateError, OpenScanError, StateError, StoreClosedError, StoreLockedError
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TaskId
from tests.simulation.application import APP, STAGE
from tests.simulation.clocks import ProcessClock
from tests.simulation.coordinators import Coordinators, SimulatedLink
from tests.simulation.coverage import MIGRATING, STATES
from tests.simulation.disks import Disk, DiskBackend
from tests.simulation.holders import Directory, NetworkStateClient, Running, address_of
from tests.simulation.lanes import Process
from tests.simulation.network import Network
from tests.simulation.state_managers import StateManager
from tests.simulation.world import World
from towpath.errors import TowpathError
from towpath.query.plan import StagePlan
from towpath.stage.coordinated import Coordinated, Identity
from towpath.stage.joining import Lines, wire
from towpath.stage.metrics import StageMetrics
from towpath.stage.processor import MakeProcessor
from towpath.stage.replica import Controls, Replica
from towpath.stage.settings import StageSettings

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

RESTART_S = 0.3
"""A supervisor starts a dead process again after up to this time."""

CALLERS_FAULT = (MissingStateError, StoreClosedError, OpenScanError, StoreLockedError)
"""Errors of the state library that no schedule may bring about."""

DRAIN_S = 6.0
"""Longest drain of a replica that was asked to stop."""


@cache
def settings_of(name: str) -> StageSettings:
    """Settings of a replica; small batches, so that there are many transactions."""
    return StageSettings(
        _env_prefix="TOWPATH_SIMULATION_",
        query=APP,
        stage=STAGE,
        coordinator="http://coordinator",
        replica_name=name,
        backend="memory",
        json_batch_records=8,
        commit_interval_ms=40,
        offsets_interval_ms=400,
        drain_s=DRAIN_S,
    )


@dataclass
class Surroundings:
    """What all machines share."""

    world: World
    kafka: FakeKafka
    network: Network
    directory: Directory
    coordinators: Coordinators
    plan: StagePlan
    make_processor: MakeProcessor
    on_delete: Callable[[TaskId, int, str], None]


@dataclass
class Life:
    """One life of a replica's process."""

    process: Process
    replica: Replica
    backend: DiskBackend
    coordinated: Coordinated
    metrics: StageMetrics


@dataclass(eq=False)
class Machine:
    """One place where a replica may run.

    Attributes:
        name: also the replica's.
        wanted: whether its supervisor keeps the replica running.
        lost: it has burnt down.
        stopping: the replica was asked to stop.
        life: the replica's present life; None while it does not run.
        manager: the state manager.
    """

    name: str
    around: Surroundings
    disk: Disk = field(default_factory=Disk)
    wanted: bool = False
    lost: bool = False
    stopping: bool = False
    life: Life | None = None
    lives: int = 0
    ended_s: float = 0.0
    early_kills: list[int] = field(default_factory=list)
    manager: StateManager = field(init=False)

    def __post_init__(self) -> None:
        around = self.around
        self.manager = StateManager(
            self.name, self.disk, around.world, around.kafka, around.directory, around.coordinators, around.on_delete
        )

    @property
    def running(self) -> bool:
        """Whether the replica's process lives."""
        return self.life is not None and not self.life.process.dead

    def start(self) -> None:
        """Start state manager and replica, if they do not run."""
        if self.lost:
            return
        self.wanted = True
        self.manager.start()
        if not self.running:
            self.stopping = False
            self.lives += 1
            process = self.around.world.start(self.name, self._live)
            process.on_death = self._died
            if self.early_kills:
                process.kill_after = self.early_kills.pop(0)

    def drain(self) -> None:
        """SIGTERM to the replica; its supervisor does not start it again."""
        self.wanted = False
        if self.running and not self.stopping:
            self.stopping = True
            self.around.world.note(self.name, "asked to stop (SIGTERM)")

    def wake(self) -> None:
        """Start it again, if it was drained or is about to be."""
        if not self.lost:
            self.wanted = True
            if not self.running:
                self.start()

    def burn_down(self) -> None:
        """Lose replica, state manager and disk for good."""
        self.lost, self.wanted = True, False
        self.kill("its machine is lost")
        self.manager.wanted = False
        self.manager.kill("its machine is lost")
        self.disk.wipe()

    def kill(self, cause: str) -> None:
        """SIGKILL to the replica."""
        if self.life is not None:
            self.around.world.kill(self.life.process, cause)

    def _died(self, cause: str) -> None:
        world = self.around.world
        self.ended_s = world.now_s
        self.life = None
        if cause != "ended" and world.rng.random() < 0.7:
            self.around.coordinators.died(self.name)
        world.after(0.01 + world.rng.random() * RESTART_S, self._again)

    def _again(self) -> None:
        if self.wanted and not self.running:
            self.start()

    def _live(self, process: Process) -> None:
        life = self.life = self._make(process)
        try:
            life.replica.run()
        except CALLERS_FAULT:
            raise
        except (StateError, TowpathError) as error:
            self.around.world.note(self.name, f"gives up: {error!r}")

    def _make(self, process: Process) -> Life:
        around, world = self.around, self.around.world
        clock, backend = ProcessClock(world, process), DiskBackend(world, self.disk)
        metrics, settings = StageMetrics(STAGE, self.name), settings_of(self.name)
        coordinated = self._coordinated(process, clock, backend, metrics)
        replica = Replica(
            around.plan,
            settings,
            around.kafka,
            backend,
            clock,
            metrics,
            Controls(self._is_stopping, world.sleep),
            around.make_processor,
            coordinated,
        )
        return Life(process, replica, backend, coordinated, metrics)

    def _coordinated(
        self, process: Process, clock: ProcessClock, backend: DiskBackend, metrics: StageMetrics
    ) -> Coordinated:
        around, world, holders = self.around, self.around.world, dict[str, str]()
        client = NetworkStateClient(world, around.network, around.directory, self.name, holders)

        def spawn(work: Callable[[], Any]) -> Running[Any]:
            return Running(world, process, work)

        lines = Lines(
            Identity(STAGE, self.name, f"{self.name}-{self.lives}"),
            client,
            SimulatedLink(world, around.coordinators, process, self.name),
            holders,
            self._state_address,
            spawn,
            spawn,
            lambda: False,
            world.sleep,
            lambda: None,
        )
        return wire(around.plan, settings_of(self.name), around.kafka, backend, clock, metrics, lines)

    def _state_address(self) -> str:
        return address_of(self.name) if self.manager.running else ""

    def _is_stopping(self) -> bool:
        return self.stopping


def state_of(simulation: Simulation, partition: int) -> str:
    """State of a task in the words of the protocol, for the coverage table."""
    states = [_state_at(machine.life, partition) for machine in simulation.machines.values() if machine.life]
    return max(filter(None, states), key=STATES.index, default="unassigned")


def _state_at(life: Life, partition: int) -> str | None:
    for report in life.coordinated._arrivals.reports():
        if report.partition == partition:
            return str(report.state)
    owned = life.replica.owned.get(partition)
    if owned is None:
        return None
    view = life.coordinated.view.of(owned.id)
    if view.assigned_elsewhere(life.process.name, owned.epoch):
        return "releasing"
    phase = "complete" if owned.migration is None else owned.migration.job.progress().phase
    return MIGRATING.get(phase, "complete")
