"""One run: a cluster, its load, what happens to it, and the judgement at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from statemgr.kafka.ports import TopicSpec
from statemgr.layout import changelog_topic, control_topic
from statemgr.types import TaskId, TopicPartition
from tests.simulation.application import APP, INPUT, STAGE
from tests.simulation.broker import SimulatedKafka
from tests.simulation.case import Committed
from tests.simulation.coordinators import Coordinators
from tests.simulation.coverage import Coverage
from tests.simulation.holders import Directory
from tests.simulation.invariants import LogWatch
from tests.simulation.lanes import Process
from tests.simulation.load import Planned
from tests.simulation.machines import Machine, Surroundings, state_of
from tests.simulation.markers import StaggeredMarkers
from tests.simulation.network import Network, Weather
from tests.simulation.pauses import EVERY_S, Arrivals, resting_for_nothing, waiting_in_vain
from tests.simulation.rest import registry_differences, why_not_at_rest
from tests.simulation.schedule import Schedule, Strike
from tests.simulation.strikes import Striker
from tests.simulation.verify import disk_differences
from tests.simulation.world import SimulationError, World
from towpath.coordinator.messages import ScaleRequest

TRANSACTION_TIMEOUT_S = 2.0
"""Of the simulated broker, in proportion to the coordinator's deadlines."""

COMPACTED = {"cleanup.policy": "compact", "delete.retention.ms": "60000"}
"""Of changelog and control log, with the shortest retention that is accepted."""

STORES_EVERY = 10
"""Commits between two looks at the content of all stores (I4); a run has some 150."""

REST_S = 40.0
"""Longest time until everything is processed once nothing happens any more (I6)."""

LOOK_S = 0.25
"""Between two looks whether everything is."""

LAST_LOOK_S = 1.0
"""How long the cluster goes on before its registries are looked at."""

SETTLE_S = 15.0
"""Longest time until nobody keeps anything of a task that it does not run; tasks may still be moved meanwhile."""

ROLES = ("holder", "coordinator")
"""First words of the names of processes that are no replicas."""


class Simulation:
    """A cluster in a world."""

    def __init__(self, seed: int, schedule: Schedule, *, trace: bool = False) -> None:
        self.schedule = schedule
        self.case = schedule.case
        self.world = World(seed, haste=schedule.haste, trace=trace)
        self.kafka = SimulatedKafka(self.world, marker_lag_s=schedule.marker_lag_s)
        self.kafka.cluster.transaction_timeout_s = TRANSACTION_TIMEOUT_S
        self._markers = StaggeredMarkers(self.world, self.kafka.cluster, schedule.marker_spread_s)
        self.network = Network(self.world, schedule.weather)
        self.directory = Directory()
        self.watch = LogWatch(self.world, self.kafka.cluster, APP, STAGE, self.case)
        self.coordinators = Coordinators(self.world, self.kafka, self.network, schedule.partitions)
        self.watch.on_change = self._react
        self.watch.on_commit = self._committed
        self.watch.only_planned = schedule.only_planned
        self._arrivals = Arrivals()
        self.world.on_kill = self._killed
        self.coverage = Coverage()
        self._is_calm = False
        self.machines: dict[str, Machine] = {}
        self._around = Surroundings(
            self.world,
            self.kafka,
            self.network,
            self.directory,
            self.coordinators,
            self.case.plan(schedule.partitions),
            self.case.make_processor,
            self.watch.deleted,
        )
        self._producer = self.kafka.producer(transactional_id=None, name="load")
        self.kafka.broker.on_return = self._producer.send_queued
        self._striker = Striker(self)

    def make_topics(self) -> None:
        """Make input, outputs and changelog, anew if they are there."""
        partitions = self.schedule.partitions
        for topic in (INPUT, *self.case.outputs):
            self.kafka.cluster.create(TopicSpec(topic, partitions))
        self.kafka.cluster.create(TopicSpec(changelog_topic(APP, STAGE), partitions, COMPACTED))

    def settle_markers(self) -> None:
        """Write every marker that is still to come."""
        self.kafka.settle()
        self._markers.settle()

    # --- what strikes ask for ---

    def scale(self, count: int) -> None:
        """Start and drain machines until so many run, as a launcher does."""
        running = [machine for machine in self.machines.values() if machine.wanted]
        for machine in list(self.machines.values()):
            if len(running) < count and not machine.wanted and not machine.lost:
                machine.wake()
                running.append(machine)
        while len(running) < count:
            running.append(self._new_machine())
        for machine in running[count:]:
            self.world.after(self.world.rng.random(), lambda machine=machine: self._drain(machine))

    def ensure_someone(self) -> None:
        """Somebody must be there to go on."""
        if not any(machine.wanted for machine in self.machines.values()):
            self.scale(1)

    def cover(self, event: str) -> None:
        """Note in which states an event met the tasks."""
        for partition in range(self.schedule.partitions):
            self.coverage[state_of(self, partition), event] += 1
        for step in self.coordinators.steps():
            self.coverage[step, event] += 1

    def _killed(self, process: Process) -> None:
        """A process is about to die."""
        role = process.name.partition(" ")[0].partition("-")[0]
        self.cover(f"{role if role in ROLES else 'replica'} dies")

    def _drain(self, machine: Machine) -> None:
        """Those that were to stay may be lost meanwhile."""
        machine.drain()
        if self._is_calm:
            self.ensure_someone()

    # --- the run ---

    def run(self) -> None:
        """Run it.

        Raises:
            SimulationError: something happened that must never happen.
        """
        self._begin()
        while self.world.now_s < (calm_s := self._calm_s()):
            self.world.run_until(calm_s)
        self._calm()
        self._come_to_rest()
        self._judge()

    def close(self) -> None:
        """End everything."""
        self.world.close()

    def _calm_s(self) -> float:
        """No earlier than the broker's return: clients that have given up meanwhile are what its absence is for."""
        return max(self.schedule.calm_s + self.world.slept_s, self.kafka.broker.back_s)

    def _begin(self) -> None:
        self.make_topics()
        self.kafka.cluster.create(TopicSpec(control_topic(APP), 1, COMPACTED))
        self.coordinators.start()
        for _ in range(self.schedule.replicas):
            self._new_machine()
        request = ScaleRequest(stage=STAGE, manner=self.schedule.manner)
        how = f"{self.schedule.manner.strategy}, {self.schedule.manner.bins} units"
        self.world.at(0.02, lambda: self.coordinators.ask(how, lambda coordinator: coordinator.scale(request)))
        for number, planned in enumerate(self.schedule.load):
            self.world.at(planned.at_s, lambda number=number, planned=planned: self._write(number, planned))
        for strike in self.schedule.strikes:
            self.world.at(strike.at_s, lambda strike=strike: self._strike(strike))
        if self.schedule.only_planned:
            self._look()

    def _react(self, change: int) -> None:
        strike = self.schedule.reactions.get(change)
        if strike is not None:
            self.world.after(strike.at_s, lambda: self._strike(strike))

    def _strike(self, strike: Strike) -> None:
        """Nothing strikes once it is calm, though it was due: the time to come to rest counts from there."""
        if not self._is_calm:
            self._striker.strike(strike)

    def _write(self, number: int, planned: Planned) -> None:
        for value in self.case.encode(number, planned.record):
            self._producer.produce(INPUT, planned.partition, None, value)
            self._arrivals.add(planned.partition, self.world.now_s)

    def _committed(self, owner: str) -> None:
        """What holds after every commit."""
        machine = self.machines.get(owner)
        if machine is not None and machine.life is not None:
            self._require(resting_for_nothing(machine.life), "I7")
        if self.watch.commits % STORES_EVERY == 0:
            self._require(self._store_differences(), "in the middle of the run")

    def _look(self) -> None:
        """What holds at any time while nothing happens but planned moves."""
        if not self._is_calm:
            self._require(waiting_in_vain(self, self._arrivals), "I7")
            self.world.after(EVERY_S, self._look)

    def _require(self, found: Iterable[str], where: str) -> None:
        text = next(iter(found), None)
        if text is not None:
            self.world.fail(SimulationError(f"{text} ({where})"))

    def _store_differences(self) -> Iterator[str]:
        topic_id = self.kafka.cluster.topics[changelog_topic(APP, STAGE)].info.topic_id
        disks = {name: machine.disk for name, machine in self.machines.items()}
        return disk_differences(disks, self.watch, topic_id)

    def _new_machine(self) -> Machine:
        machine = Machine(f"r{len(self.machines)}", self._around)
        self.machines[machine.name] = machine
        machine.start()
        return machine

    def _calm(self) -> None:
        """Nothing happens any more; who was stopped or cut off is back."""
        self._is_calm = True
        world = self.world
        world.note("schedule", "calm")
        self.network.weather = Weather()
        self.network.cut.clear()
        self.kafka.cluster.faults._planned.clear()
        self.kafka.broker.stay()
        for machine in self.machines.values():
            machine.disk.slow_s = 0.0
            machine.disk.full = machine.disk.unreadable = False
            machine.early_kills.clear()
        for process in world.processes():
            process.kill_after = process.stop_after = None
            world.resume(process)
        self.ensure_someone()

    def _come_to_rest(self) -> None:
        self._wait_until(REST_S, lambda: why_not_at_rest(self))
        self.world.run_until(self.world.now_s + LAST_LOOK_S)
        self._wait_until(SETTLE_S, lambda: why_not_at_rest(self) or "; ".join(registry_differences(self)))

    def _wait_until(self, longest_s: float, why_not: Callable[[], str | None]) -> None:
        deadline_s = self.world.now_s + longest_s
        while reason := why_not():
            if self.world.now_s >= deadline_s:
                raise SimulationError(f"not so {longest_s:g} s after the last strike (I6): {reason}")
            self.world.run_until(self.world.now_s + LOOK_S)

    def _judge(self) -> None:
        self.settle_markers()
        found = [
            *self.case.differences(Committed(self.kafka, self.schedule.partitions, self.watch)),
            *self._store_differences(),
        ]
        if found:
            raise SimulationError("\n".join(found[:20]))

    def input_end(self, partition: int) -> int:
        """Offset after the last record of an input partition."""
        return self.kafka.cluster.log(TopicPartition(INPUT, partition)).bounds.end

    def tasks(self) -> list[TaskId]:
        """All tasks."""
        return [TaskId(STAGE, partition) for partition in range(self.schedule.partitions)]
