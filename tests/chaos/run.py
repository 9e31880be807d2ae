"""Carries out one schedule on real processes, and compares with the reference."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.schedule import LENGTH_S, Kill, Pause, Scale, Step, Victim, schedule
from tests.harness.cluster import Cluster, clustered, hand_overs
from tests.harness.load import Load
from tests.harness.pods import Pod, resume
from tests.harness.processes import LoggedProcess
from tests.harness.reference import bids_of, compare_each_count, compare_state, final_counts
from tests.harness.waiting import POLL_S
from towpath.broker import LocalBroker

QUERY = "tests.harness.bid_counts"
STAGE = "count"
TABLE = "count"
PARTITIONS = 8
RATE = 1500
"""Events a second: work on two cores that also start a process every second."""

LEAST_HAND_OVERS = 2


@dataclass
class Told:
    """What happened, for the message of a failure."""

    seed: int
    again: str
    began_s: float = field(default_factory=time.monotonic)
    lines: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Note an event with its time."""
        self.lines.append(f"{time.monotonic() - self.began_s:6.2f} s  {text}")

    def note(self) -> str:
        """Seed, the line that runs the schedule again, and the history."""
        return "\n".join([f"seed {self.seed}; again: {self.again}", "history:", *(f"  {line}" for line in self.lines)])


@dataclass(frozen=True)
class Outcome:
    """What a schedule that went well was like.

    Attributes:
        seed: of the schedule.
        events: sent.
        outputs: compared.
        strikes: kills and pauses.
        hand_overs: changes of owner of all tasks.
        most_hand_overs: of the task that changed most often.
        took_s: in all.
    """

    seed: int
    events: int
    outputs: int
    strikes: int
    hand_overs: int
    most_hand_overs: int
    took_s: float


def run_schedule(seed: int, broker: LocalBroker, app: str, work_dir: Path, *, strike_broker: bool = False) -> Outcome:
    """Run one schedule.

    Raises:
        AssertionError: something was lost, doubled, or did not end; notes tell seed, history and the last log lines.
    """
    began_s = time.monotonic()
    told = Told(seed, f"make chaos RUNS=1 SEED={seed}")
    cluster = Cluster(
        QUERY,
        broker.bootstrap,
        work_dir,
        settings={"app": app, "emit": "each", "partitions": PARTITIONS},
        source_partitions=PARTITIONS,
    )
    steps = schedule(seed, broker=strike_broker)
    try:
        with clustered(cluster):
            cluster.await_settled()
            told.began_s = time.monotonic()
            with Load(broker.bootstrap, cluster.source, partitions=PARTITIONS, rate=RATE, seed=seed) as load:
                _Performance(cluster, broker, told).carry_out(steps)
                load.stop()
                told.add(f"load stopped after {load.sent} events")
                cluster.await_settled()
                told.add("settled")
                cluster.drain()
                told.add("drained")
                cluster.stop()
                told.add("stopped")
                bids = bids_of(load.values())
            outputs = cluster.outputs()
            compare_each_count(outputs, bids)
            compare_state(cluster.state(STAGE, TABLE), final_counts(bids))
            changes = hand_overs(cluster.control()[1], STAGE)
            most = max(changes.values(), default=0)
            assert most >= LEAST_HAND_OVERS, f"no task was handed over twice, the schedule shows nothing: {changes}"
    except BaseException as error:
        error.add_note(told.note())
        raise
    strikes = sum(not isinstance(step, Scale) for _, step in steps)
    took_s = round(time.monotonic() - began_s, 1)
    return Outcome(seed, load.sent, len(outputs), strikes, sum(changes.values()), most, took_s)


class _Performance:
    """Carries out the steps of a schedule, each at its time."""

    def __init__(self, cluster: Cluster, broker: LocalBroker, told: Told) -> None:
        self._cluster = cluster
        self._broker = broker
        self._told = told
        self._began_s = time.monotonic()
        self._order = itertools.count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._newest: Pod = cluster.working(STAGE)[-1]

    def carry_out(self, steps: list[tuple[float, Step]]) -> None:
        """Everything that the steps say, and all that follows from them; takes the schedule's time at least."""
        for at_s, step in steps:
            self._at(at_s, lambda step=step: self._do(step))  # type: ignore[misc]
        self._at(LENGTH_S, lambda: None)
        while self._due:
            self._cluster.tend()
            at_s, _, act = self._due[0]
            left_s = at_s - self._now_s()
            if left_s > 0:
                time.sleep(min(POLL_S, left_s))  # the schedule's own time, not a wait for something
                continue
            heapq.heappop(self._due)
            act()

    def _do(self, step: Step) -> None:
        match step:
            case Scale(count):
                self._told.add(str(step))
                self._newest = (self._cluster.scale(STAGE, count) or [self._newest])[-1]
            case Kill(Victim.BROKER):
                self._told.add(str(step))
                self._broker.kill()
                self._later(step.restart_s, "broker starts again", self._broker.start)
            case Kill():
                self._kill(step)
            case Pause(victim, for_s):
                process = self._process(victim)
                if process is None or not process.alive:
                    self._told.add(f"{step}: there is none")
                    return
                self._told.add(f"{step}: {process.name}")
                process.pause()
                self._later(for_s, f"{process.name} goes on", lambda: resume(process))

    def _kill(self, step: Kill) -> None:
        process = self._process(step.victim)
        if process is None or not process.alive:
            self._told.add(f"{step}: there is none")
            return
        self._told.add(f"{step}: {process.name}")
        pod = next((pod for pod in self._cluster.pods.values() if process in pod.processes), None)
        process.kill()
        if pod is None:
            self._later(step.restart_s, f"{process.name} starts again", process.start)
            return
        pod.struck = pod.struck or pod.leaving
        if step.wiped and pod.state_manager is not None:
            pod.state_manager.close()
            pod.wipe()
        if process is pod.stage and step.reported:
            pod.report_died()
        self._later(step.restart_s, f"{pod.name} starts again", pod.revive)

    def _process(self, victim: Victim) -> LoggedProcess | None:
        if victim is Victim.COORDINATOR:
            return self._cluster.coordinator
        pod = self._newest
        if victim in {Victim.OWNER, Victim.OWNER_STATE_MANAGER}:
            pod = next((pod for pod in self._cluster.working(STAGE) if pod is not self._newest), self._newest)
        return pod.stage if victim in {Victim.OWNER, Victim.NEWCOMER} else pod.state_manager

    def _later(self, after_s: float, what: str, act: Callable[[], None]) -> None:
        def do() -> None:
            self._told.add(what)
            with suppress(ProcessLookupError):
                act()

        self._at(self._now_s() + after_s, do)

    def _at(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at_s, next(self._order), act))

    def _now_s(self) -> float:
        return time.monotonic() - self._began_s
