"""Seeded schedules of kill -9, and the carrying out of one."""

from __future__ import annotations

import random
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.harness.deployment import Deployment

SHORTEST_GAP_S, LONGEST_GAP_S, MEAN_GAP_S = 0.1, 2.0, 0.6
TWO_AT_ONCE = 0.2
"""Share of strikes that kill two replicas at the same time."""

WIPED = 0.3
"""Share of kills that take the state directory along."""

SETTLED = 0.45
"""Share of strikes that wait until all replicas run. The others come during start and restore."""


@dataclass(frozen=True)
class Strike:
    """One moment at which replicas are killed and started again at once.

    Attributes:
        settled: whether to wait until all replicas run.
        gap_s: time to let pass then.
        victims: replica → whether its state directory is deleted.
    """

    settled: bool
    gap_s: float
    victims: dict[str, bool]


@dataclass
class History:
    """What happened, for the message of a failing test."""

    seed: int
    began_s: float = field(default_factory=time.monotonic)
    lines: list[str] = field(default_factory=list)
    phases: list[str] = field(default_factory=list)

    def add(self, text: str) -> None:
        """Note an event with its time."""
        self.lines.append(f"{time.monotonic() - self.began_s:6.2f} s  {text}")

    def note(self, test_id: str) -> str:
        """Seed, history, and the line that runs the schedule again."""
        again = f"SEED={self.seed} .venv/bin/pytest {shlex.quote(test_id)}"
        return "\n".join([f"seed {self.seed}; again: {again}", "history:", *(f"  {line}" for line in self.lines)])


def schedule(seed: int, replicas: Sequence[str], kills: int) -> list[Strike]:
    """Strikes that kill ``kills`` replicas in all."""
    chance = random.Random(seed)
    strikes: list[Strike] = []
    left = kills
    while left > 0:
        count = 2 if left > 1 and len(replicas) > 1 and chance.random() < TWO_AT_ONCE else 1
        victims = {name: chance.random() < WIPED for name in chance.sample(list(replicas), count)}
        gap_s = min(LONGEST_GAP_S, max(SHORTEST_GAP_S, chance.expovariate(1 / MEAN_GAP_S)))
        strikes.append(Strike(chance.random() < SETTLED, round(gap_s, 3), victims))
        left -= count
    return strikes


def carry_out(strikes: Sequence[Strike], deployment: Deployment, history: History) -> None:
    """Kill and start again, one strike after the other."""
    for strike in strikes:
        if strike.settled:
            deployment.await_running()
        time.sleep(strike.gap_s)  # the schedule's own time, not a wait for something
        phases = {name: deployment[name].phase() for name in strike.victims}
        for name in strike.victims:
            deployment[name].kill()
        for name, wiped in strike.victims.items():
            if wiped:
                deployment[name].wipe_state()
            deployment[name].start()
            history.phases.append(phases[name])
            history.add(f"kill -9 {name} while {phases[name]}, state {'deleted' if wiped else 'kept'}")
