"""Carries out one schedule on real processes, and compares with the reference."""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from statemgr.control.records import Strategy
from tests.chaos.programs import COUNTS, PARTITIONS, STAGE, Program
from tests.chaos.schedule import REST_S, Change, Kill, Strike, Victim, schedule
from tests.harness.cluster import Cluster, clustered, hand_overs
from tests.harness.load import Load
from tests.harness.pods import Pod, resume
from tests.harness.processes import LoggedProcess
from tests.harness.reference import bids_of
from tests.harness.waiting import POLL_S
from towpath.broker import LocalBroker

RATE = 1500
"""Events a second: work on two cores that also start a process every second."""

LEAST_HAND_OVERS = 2

MORE_CHANGES = 4
"""Two make a hand-over there and back; as many again where the first find an owner that is still restarting."""

EFFECT_LIMIT_S = 15.0
"""Until a newcomer is a member: it loads its runtime in two seconds, on a busy machine some times that."""


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
        strategy: how state travelled.
        events: sent.
        outputs: compared.
        strikes: kills and pauses.
        hand_overs: changes of owner of all tasks.
        most_hand_overs: of the task that changed most often.
        took_s: in all.
    """

    seed: int
    strategy: Strategy
    events: int
    outputs: int
    strikes: int
    hand_overs: int
    most_hand_overs: int
    took_s: float


def run_schedule(
    seed: int, broker: LocalBroker, app: str, work_dir: Path, program: Program = COUNTS, name: str = "counts"
) -> Outcome:
    """Run the schedule of a seed on a program; the broker runs afterwards whatever befell it.

    Raises:
        AssertionError: something was lost, doubled, or did not end; notes tell seed, history and the last log lines.
    """
    began_s = time.monotonic()
    told = Told(seed, f"make chaos RUNS=1 SEED={seed} PROGRAM={name}")
    cluster = Cluster(
        program.query,
        broker.bootstrap,
        work_dir,
        settings={"app": app, "partitions": PARTITIONS, **program.settings},
        source_partitions=PARTITIONS,
    )
    steps = schedule(seed)
    try:
        with clustered(cluster):
            cluster.travel_by(STAGE, steps.strategy)
            cluster.await_settled()
            told.began_s = time.monotonic()
            told.add(f"state travels by {steps.strategy}")
            with Load(broker.bootstrap, cluster.source, partitions=PARTITIONS, rate=RATE, seed=seed) as load:
                try:
                    _Performance(cluster, broker, told).carry_out(steps.changes)
                finally:
                    broker.start()
                    broker.resume()
                _hand_over_more(cluster, told)
                if steps.strategy is Strategy.LAZY:
                    _bring_all_state(cluster, told)
                load.stop()
                told.add(f"load stopped after {load.sent} events")
                cluster.await_settled()
                told.add("settled")
                cluster.drain()
                told.add("drained")
                bids = bids_of(load.values())
                program.close(cluster, load, bids)
                cluster.await_settled()  # again: a death may have been noticed, and tasks moved for it, only since
                cluster.require_clean_leaves()
                cluster.freeze()
            outputs = cluster.outputs()
            program.judge(cluster, outputs, bids)
            moved = hand_overs(cluster.control()[1], STAGE)
            most = max(moved.values(), default=0)
            assert most >= LEAST_HAND_OVERS, f"no task was handed over twice, the schedule shows nothing: {moved}"
    except BaseException as error:
        error.add_note(told.note())
        raise
    took_s = round(time.monotonic() - began_s, 1)
    return Outcome(seed, steps.strategy, load.sent, len(outputs), len(steps.strikes), sum(moved.values()), most, took_s)


def _hand_over_more(cluster: Cluster, told: Told) -> None:
    """Go on until a task has been handed over twice: what was struck may have kept the schedule's moves from coming."""
    for _ in range(MORE_CHANGES):
        if max(hand_overs(cluster.control()[1], STAGE).values(), default=0) >= LEAST_HAND_OVERS:
            return
        count = 1 if len(cluster.working(STAGE)) > 1 else 2
        told.add(f"scale to {count}, since no task was handed over twice")
        cluster.scale(STAGE, count)
        cluster.await_settled(complete=False)


def _bring_all_state(cluster: Cluster, told: Told) -> None:
    """Let all but one leave: what is fetched only when it is needed is fetched at last when its holder wants to go."""
    told.add("scale to 1, so that all state comes")
    cluster.scale(STAGE, 1)


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

    def carry_out(self, changes: Sequence[Change]) -> None:
        """Every change with its strikes, and all that follows from them."""
        for change in changes:
            if change.awaited:
                self._await_effect()
            self._let_pass(change.after_s)
            self._told.add(str(change))
            self._newest = (self._cluster.scale(STAGE, change.count) or [self._newest])[-1]
            for after_s, strike in change.strikes:
                self._at(self._now_s() + after_s, lambda strike=strike: self._do(strike))  # type: ignore[misc]
        while self._due:
            self._let_pass(self._due[0][0] - self._now_s())
        self._await_effect()
        self._let_pass(REST_S)

    def _await_effect(self) -> None:
        """Until the newcomers are members; not for ever, since they or the coordinator may have been struck."""
        end_s = self._now_s() + EFFECT_LIMIT_S
        while self._now_s() < end_s and not self._cluster.all_are_members(STAGE):
            self._let_pass(POLL_S)

    def _let_pass(self, seconds: float) -> None:
        """Let time pass, and do meanwhile what is due."""
        end_s = self._now_s() + seconds
        while True:
            self._cluster.tend()
            while self._due and self._due[0][0] <= self._now_s():
                heapq.heappop(self._due)[2]()
            left_s = end_s - self._now_s()
            if left_s <= 0:
                return
            time.sleep(min(POLL_S, left_s))  # the schedule's own time, not a wait for something

    def _do(self, strike: Strike) -> None:
        if strike.victim is Victim.BROKER:
            self._strike_broker(strike)
            return
        process = self._process(strike.victim)
        if process is None or not process.alive:
            self._told.add(f"{strike}: there is none")
            return
        self._told.add(f"{strike}: {process.name}")
        if isinstance(strike, Kill):
            self._kill(strike, process)
        else:
            process.pause()
            self._later(strike.for_s, f"{process.name} goes on", lambda: resume(process))

    def _strike_broker(self, strike: Strike) -> None:
        self._told.add(str(strike))
        if isinstance(strike, Kill):
            self._broker.kill()
            self._later(strike.restart_s, "broker starts again", self._broker.start)
        else:
            self._broker.pause()
            self._later(strike.for_s, "broker goes on", self._broker.resume)

    def _kill(self, step: Kill, process: LoggedProcess) -> None:
        pod = next((pod for pod in self._cluster.pods.values() if process in pod.processes), None)
        process.kill()
        if pod is None:
            self._later(step.restart_s, f"{process.name} starts again", process.start)
            return
        pod.struck = pod.struck or pod.leaving
        if step.wiped:
            pod.lose_disk()
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

    def _later(self, after_s: float, what: str, act: Callable[[], object]) -> None:
        def do() -> None:
            self._told.add(what)
            with suppress(ProcessLookupError):
                act()

        self._at(self._now_s() + after_s, do)

    def _at(self, at_s: float, act: Callable[[], None]) -> None:
        heapq.heappush(self._due, (at_s, next(self._order), act))

    def _now_s(self) -> float:
        return time.monotonic() - self._began_s
