"""Carries out what a schedule says."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from statemgr.errors import ProducerLostError, RetryableKafkaError
from statemgr.layout import changelog_topic, control_topic
from statemgr.testing.kafka import FakeKafka
from statemgr.testing.partition_log import Outcome
from statemgr.types import TaskId, TopicPartition
from tests.simulation.application import APP, STAGE
from tests.simulation.holders import listener
from tests.simulation.kinds import Kind
from tests.simulation.lanes import Process
from tests.simulation.load import MOST_KEYS
from tests.simulation.machines import Machine
from tests.simulation.reads import read_live
from tests.simulation.schedule import Strike
from towpath.coordinator.messages import MoveRequest, ScaleRequest

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

AFTER_NIGHT_S = 61.0
"""Tombstones may leave the log once all of them are older than ``delete.retention.ms``: after such a night."""


READS_BEHIND = 60
"""Reads while stores that were lost are made anew."""

READ_EVERY_S = 0.02
"""Between two of them: shorter than such a restore takes."""


class Striker:
    """Does to a simulation what strikes say."""

    def __init__(self, simulation: Simulation) -> None:
        self._sim = simulation
        self._world = simulation.world
        self._handlers: dict[Kind, Callable[[Strike], None]] = {
            Kind.KILL: self._kill,
            Kind.KILL_EARLY: self._kill_early,
            Kind.STOP: self._stop,
            Kind.STOP_IN_CALL: self._stop_in_call,
            Kind.LOSE_STORES: self._lose_stores,
            Kind.SCALE: self._scale,
            Kind.MOVE: self._move,
            Kind.DRAIN: self._drain,
            Kind.HOLDER_KILL: self._holder_kill,
            Kind.HOLDER_STOP: self._holder_stop,
            Kind.HOLDER_CUT: self._holder_cut,
            Kind.HOLDER_LOST: self._holder_lost,
            Kind.COPY_LOST: self._copy_lost,
            Kind.COORDINATOR_KILL: self._coordinator_kill,
            Kind.COORDINATOR_STOP: self._coordinator_stop,
            Kind.COORDINATOR_TWICE: self._coordinator_twice,
            Kind.CLOCK: self._clock,
            Kind.COMPACT: self._compact,
            Kind.UNKNOWN_OUTCOME: self._unknown_outcome,
            Kind.CALL_FAILS: self._call_fails,
            Kind.TAIL_LOST: self._tail_lost,
            Kind.SLOW_DISK: self._slow_disk,
            Kind.NIGHT: self._night,
            Kind.READ: self._read,
            Kind.TOPICS_ANEW: self._topics_anew,
            Kind.BROKER_AWAY: self._broker_away,
            Kind.DISK_FULL: self._disk_full,
        }

    def strike(self, strike: Strike) -> None:
        """Carry one out."""
        self._world.note("schedule", str(strike))
        self._sim.cover(str(strike.kind))
        self._handlers[strike.kind](strike)

    def _victim(self, strike: Strike) -> Machine | None:
        running = [machine for machine in self._sim.machines.values() if machine.running]
        return running[strike.args["whom"] % len(running)] if running else None

    def _process(self, strike: Strike) -> Process | None:
        victim = self._victim(strike)
        return victim.life.process if victim is not None and victim.life is not None else None

    def _manager(self, strike: Strike) -> Machine | None:
        running = [machine for machine in self._sim.machines.values() if machine.manager.running]
        return running[strike.args["whom"] % len(running)] if running else None

    # --- replicas ---

    def _kill(self, strike: Strike) -> None:
        process = self._process(strike)
        if process is not None:
            process.kill_after = process.steps + strike.args["calls"]

    def _kill_early(self, strike: Strike) -> None:
        victim, process = self._victim(strike), self._process(strike)
        if victim is not None and process is not None:
            process.kill_after = process.steps + strike.args["calls"]
            victim.early_kills.append(strike.args["then"])

    def _stop(self, strike: Strike) -> None:
        process = self._process(strike)
        if process is not None:
            self._pause(process, strike.args["seconds"])

    def _stop_in_call(self, strike: Strike) -> None:
        process = self._process(strike)
        if process is not None:
            process.stop_after = process.steps + strike.args["calls"]
            process.stop_s = strike.args["seconds"]

    def _pause(self, process: Process, seconds: float) -> None:
        self._world.stop(process)
        self._world.after(seconds, lambda: self._world.resume(process))

    def _lose_stores(self, strike: Strike) -> None:
        victim = self._victim(strike)
        if victim is not None:
            victim.kill("its disk is lost")
            victim.manager.kill("its disk is lost")
            victim.disk.wipe()
            for number in range(READS_BEHIND):
                self._world.after(number * READ_EVERY_S, partial(self._read_in_turn, number))

    def _read_in_turn(self, number: int) -> None:
        read_live(self._sim, number % self._sim.schedule.partitions, number % MOST_KEYS)

    def _scale(self, strike: Strike) -> None:
        count, manner = strike.args["replicas"], strike.args["manner"]
        self._sim.scale(count)
        request = ScaleRequest(stage=STAGE, replicas=count, manner=manner)
        how = f" by {manner.strategy}, {manner.bins} units" if manner is not None else ""
        self._sim.coordinators.ask(f"scale to {count}{how}", lambda coordinator: coordinator.scale(request))

    def _move(self, strike: Strike) -> None:
        partition = strike.args["partition"]
        owner = list(self._sim.watch.of(TaskId(STAGE, partition)).owners.values())[-1:]
        others = [machine for machine in self._sim.machines.values() if machine.running and [machine.name] != owner]
        if others:
            victim = others[strike.args["whom"] % len(others)]
            request = MoveRequest(stage=STAGE, partition=partition, replica=victim.name)
            self._sim.coordinators.ask(
                f"move {partition} to {victim.name}", lambda coordinator: coordinator.move(request)
            )

    def _drain(self, strike: Strike) -> None:
        victim = self._victim(strike)
        if victim is not None:
            victim.drain()
            self._world.after(1.0 + self._world.rng.random() * 3, victim.wake)

    # --- state managers ---

    def _holder_kill(self, strike: Strike) -> None:
        victim = self._manager(strike)
        if victim is not None:
            victim.manager.kill("by the schedule")

    def _holder_stop(self, strike: Strike) -> None:
        victim = self._manager(strike)
        if victim is not None and victim.manager.process is not None:
            self._pause(victim.manager.process, strike.args["seconds"])

    def _holder_cut(self, strike: Strike) -> None:
        victim = self._manager(strike)
        if victim is not None:
            name, cut = listener(victim.manager.address), self._sim.network.cut
            cut.add(name)
            self._world.after(strike.args["seconds"], lambda: cut.discard(name))

    def _holder_lost(self, strike: Strike) -> None:
        alive = [machine for machine in self._sim.machines.values() if not machine.lost]
        if len(alive) > 1:
            alive[strike.args["whom"] % len(alive)].burn_down()
            self._sim.ensure_someone()

    def _copy_lost(self, strike: Strike) -> None:
        task = TaskId(STAGE, strike.args["partition"])
        for machine in self._sim.machines.values():
            for epoch in machine.disk.stores.existing(task)[:1]:
                if machine.disk.lose(task, epoch):
                    self._world.note(machine.name, f"loses {task}@{epoch}")
                    return

    # --- coordinator ---

    def _coordinator_kill(self, strike: Strike) -> None:
        process = self._sim.coordinators.process
        if process is not None:
            process.kill_after = process.steps + strike.args["calls"]

    def _coordinator_stop(self, strike: Strike) -> None:
        process = self._sim.coordinators.process
        if process is not None:
            process.stop_after = process.steps + strike.args["calls"]
            process.stop_s = strike.args["seconds"]

    def _coordinator_twice(self, strike: Strike) -> None:
        process = self._sim.coordinators.process
        if process is not None and not process.dead:
            self._pause(process, strike.args["seconds"])
            self._sim.coordinators.start()

    # --- broker, clocks, disks ---

    def _clock(self, strike: Strike) -> None:
        victims = [self._process(strike), self._sim.coordinators.process]
        victim = victims[strike.args["whom"] % 2]
        if victim is not None:
            victim.wall_offset_s += strike.args["seconds"]

    def _compact(self, strike: Strike) -> None:
        compact(self._sim.kafka)

    def _unknown_outcome(self, strike: Strike) -> None:
        victim = self._victim(strike)
        if victim is not None:
            error = ProducerLostError("no definite answer to the commit")
            self._sim.kafka.fail_next("commit", error, client=victim.name, after=strike.args["after"])

    def _call_fails(self, strike: Strike) -> None:
        victim, call = self._victim(strike), strike.args["call"]
        if victim is not None:
            error = RetryableKafkaError(f"no answer to {call}")
            self._sim.kafka.fail_next(call, error, client=victim.name)

    def _tail_lost(self, strike: Strike) -> None:
        partition = TopicPartition(changelog_topic(APP, STAGE), strike.args["partition"])
        if partition.topic in self._sim.kafka.cluster.topics:
            lost = uncommitted_tail(self._sim.kafka, partition)
            self._world.note("broker", f"loses the last {lost} offsets of {partition}")
            self._sim.kafka.truncate(partition.topic, partition.partition, lost)

    def _slow_disk(self, strike: Strike) -> None:
        victim = self._victim(strike)
        if victim is not None:
            disk = victim.disk
            disk.slow_s = strike.args["seconds"]
            self._world.after(1.0, lambda: setattr(disk, "slow_s", 0.0))

    def _night(self, strike: Strike) -> None:
        seconds = strike.args["seconds"]
        self._world.pass_night(seconds)
        self._sim.kafka.cluster.pass_time()
        if seconds >= AFTER_NIGHT_S:
            compact(self._sim.kafka, drop_tombstones=True)

    def _broker_away(self, strike: Strike) -> None:
        args = strike.args
        self._sim.kafka.broker.leave(args["seconds"], args["unanswered"], args["at"])

    def _disk_full(self, strike: Strike) -> None:
        victim = self._victim(strike)
        if victim is not None:
            disk = victim.disk
            disk.full, disk.unreadable = True, strike.args["unreadable"]

            def room() -> None:
                disk.full = disk.unreadable = False

            self._world.after(strike.args["seconds"], room)

    def _topics_anew(self, strike: Strike) -> None:
        if self._sim.kafka.broker.away:
            return
        for machine in self._sim.machines.values():
            machine.kill("everything starts with new topics")
        self._sim.settle_markers()
        self._sim.make_topics()
        self._sim.watch.begin_anew()

    def _read(self, strike: Strike) -> None:
        read_live(self._sim, strike.args["partition"], strike.args["key"])


def compact(kafka: FakeKafka, *, drop_tombstones: bool = False) -> None:
    """Run the log cleaner over changelog and control log."""
    for topic in (changelog_topic(APP, STAGE), control_topic(APP)):
        if topic in kafka.cluster.topics:
            kafka.compact(topic, drop_tombstones=drop_tombstones)


def uncommitted_tail(kafka: FakeKafka, partition: TopicPartition) -> int:
    """Offsets at the end of a partition that belong to aborted transactions alone.

    A record of an open one may not be lost either: its producer has been told that it is there.
    """
    tail = 0
    log = kafka.cluster.log(partition)
    expected = log.bounds.end - 1
    for entry in reversed(log.entries):
        aborted = entry.transaction is not None and entry.transaction.outcome is Outcome.ABORTED
        if not aborted or entry.offset != expected or entry.transaction in log._open:
            break
        tail += 1
        expected -= 1
    return tail
