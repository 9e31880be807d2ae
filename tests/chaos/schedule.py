"""Seeded schedules: when an application changes size, and what befalls it meanwhile."""

from __future__ import annotations

import random
from dataclasses import dataclass
from enum import StrEnum

LENGTH_S = 14.0
"""Of a schedule; the load goes on as long."""

LEAST, MOST = 1, 3
"""Replicas of the stage."""

NEXT_GAP_S = 1.0
"""Between a change of size and one that comes while it is still under way."""

REST_GAPS_S = (2.5, 4.0)
"""Between other changes of size: a move takes half a second to a second on two busy cores."""

SILENT_S = 3.0
"""The coordinator takes a replica for dead that has been silent for so long."""


class Victim(StrEnum):
    """What a strike meets, as found when its time comes."""

    OWNER = "owner"
    """A replica that was there before the newest change of size."""

    NEWCOMER = "newcomer"
    """The replica that started or was asked to leave last."""

    OWNER_STATE_MANAGER = "owner's state manager"
    NEWCOMER_STATE_MANAGER = "newcomer's state manager"
    COORDINATOR = "coordinator"
    BROKER = "broker"


@dataclass(frozen=True)
class Scale:
    """A change of size."""

    count: int

    def __str__(self) -> str:
        return f"scale to {self.count}"


@dataclass(frozen=True)
class Kill:
    """Kill -9, and a new start.

    Attributes:
        victim: what.
        restart_s: seconds until it is started again.
        reported: whether a supervisor tells the coordinator at once that it is dead.
        wiped: whether the replica loses its disk, and with it its state manager.
    """

    victim: Victim
    restart_s: float
    reported: bool = True
    wiped: bool = False

    def __str__(self) -> str:
        facts = ["reported" if self.reported else "not reported", f"back after {self.restart_s:g} s"]
        return f"kill -9 {self.victim} ({', '.join(['disk lost'] * self.wiped + facts)})"


@dataclass(frozen=True)
class Pause:
    """SIGSTOP, and SIGCONT later."""

    victim: Victim
    for_s: float

    def __str__(self) -> str:
        return f"SIGSTOP {self.victim} for {self.for_s:g} s"


Step = Scale | Kill | Pause

_VICTIMS = {
    Victim.OWNER: 3,
    Victim.NEWCOMER: 3,
    Victim.OWNER_STATE_MANAGER: 2,
    Victim.NEWCOMER_STATE_MANAGER: 1,
    Victim.COORDINATOR: 2,
}
"""Weights: the owners carry the protocol's hardest cases."""

_WIPED = 0.25
_REPORTED = 0.6
_PAUSED = 0.3
_STRUCK = 0.75
"""Share of changes of size that are struck at while they are under way."""


def schedule(seed: int, *, broker: bool = False) -> list[tuple[float, Step]]:
    """Steps with their times, in order.

    Sizes go up and down again, so that tasks come to a newcomer and leave it: two hand-overs of the same task.

    Args:
        seed: decides everything.
        broker: whether the broker is killed, too, once.
    """
    chance = random.Random(seed)
    steps: list[tuple[float, Step]] = []
    for at_s, count in _sizes(chance):
        steps.append((at_s, Scale(count)))
        if chance.random() < _STRUCK:
            steps.append((round(at_s + chance.uniform(0.05, 1.5), 3), _strike(chance)))
    if broker:
        steps.append((round(chance.uniform(3.0, LENGTH_S - 4.0), 3), Kill(Victim.BROKER, restart_s=0.5)))
    return sorted(steps, key=lambda step: step[0])


def _sizes(chance: random.Random) -> list[tuple[float, int]]:
    """Times and sizes: up first; at least one change comes a second after another."""
    changes = [(1.0, 2)]
    hasty = chance.randrange(1, 3)
    while True:
        at_s, count = changes[-1]
        gap_s = NEXT_GAP_S if len(changes) == hasty or chance.random() < 0.3 else chance.uniform(*REST_GAPS_S)
        if at_s + gap_s > LENGTH_S - 2.0:
            return changes
        changes.append((round(at_s + gap_s, 3), _next_size(chance, count, len(changes))))


def _next_size(chance: random.Random, count: int, changes: int) -> int:
    """Another size; the third change goes down, so that tasks return within every schedule."""
    possible = [size for size in range(LEAST, MOST + 1) if size != count]
    if changes == 2:
        possible = [size for size in possible if size < count] or possible
    return chance.choice(possible)


def _strike(chance: random.Random) -> Step:
    victim = chance.choices(list(_VICTIMS), list(_VICTIMS.values()))[0]
    if chance.random() < _PAUSED:
        return Pause(victim, round(chance.choice([chance.uniform(0.2, 1.0), chance.uniform(1.0, SILENT_S + 2.0)]), 2))
    owner = victim in {Victim.OWNER, Victim.NEWCOMER}
    return Kill(
        victim,
        restart_s=round(chance.choice([0.0, chance.uniform(0.0, 1.5)]), 2),
        reported=chance.random() < _REPORTED,
        wiped=owner and chance.random() < _WIPED,
    )
