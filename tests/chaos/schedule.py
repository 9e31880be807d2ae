"""Seeded schedules: when an application changes size, and what befalls it meanwhile."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from statemgr.control.records import Strategy

SUITE = range(1, 11)
"""Seeds that ``make test`` runs: with both strikes at the broker, both openings and at least four strategies."""

WINDOW_SUITE = (12, 13)
"""Seeds that it runs on windows of event time, too."""

CHANGES = (3, 4)
"""Least and most changes of size of a schedule: about ten seconds on an idle machine."""

LEAST, MOST = 1, 4
"""Replicas of the stage."""

OPENINGS: tuple[tuple[int, ...], ...] = ((2, 3, 2), (2, 3, 4))
"""Sizes with which some schedules begin, each a second after the former: it has its newcomers, and the move goes on."""

BROKER_EVERY = 5
"""One schedule in so many strikes the broker, too: it is paused, or killed, in turns."""

NEXT_GAP_S = 1.0
"""Between a change of size and one that comes while it is still under way."""

REST_GAPS_S = (1.0, 2.0)
"""After other changes of size, from when the newcomers are there: a move takes half a second on an idle machine."""

REST_S = 1.0
"""After the last change and what befalls it, before the load ends."""

SILENT_S = 3.0
"""The coordinator takes a replica for dead that has been silent for so long."""

LONG_S = SILENT_S + 2.0
"""The longest pause."""


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


Strike = Kill | Pause


@dataclass(frozen=True)
class Change:
    """A change of size, and what befalls the application then.

    Attributes:
        count: replicas from then on.
        after_s: time since the former change.
        awaited: that time begins when the former change has taken effect: its newcomers are there.
        strikes: seconds after the change → what is struck.
    """

    count: int
    after_s: float
    awaited: bool
    strikes: tuple[tuple[float, Strike], ...] = ()

    def __str__(self) -> str:
        return f"scale to {self.count}"


_VICTIMS = {
    Victim.OWNER: 3,
    Victim.NEWCOMER: 3,
    Victim.OWNER_STATE_MANAGER: 2,
    Victim.NEWCOMER_STATE_MANAGER: 1,
    Victim.COORDINATOR: 2,
}
"""Weights: the owners carry the protocol's hardest cases."""

_STRATEGIES = {strategy: 9 if strategy is Strategy.HYBRID else 1 for strategy in Strategy}
"""Weights: three schedules of five move state as an application does that asks for nothing else."""

_OPENED = 0.3
"""Share of schedules that have an opening."""

_WIPED = 0.25
_REPORTED = 0.6
_PAUSED = 0.3
_HASTY = 0.25
_STRUCK = 0.9
"""Share of changes of size that are struck at while they are under way."""


@dataclass(frozen=True)
class Schedule:
    """What one run is made of.

    Attributes:
        strategy: how state travels.
        changes: of size, in order.
    """

    strategy: Strategy
    changes: tuple[Change, ...]

    @property
    def counts(self) -> list[int]:
        """The sizes in order, the first one included."""
        return [1, *(change.count for change in self.changes)]

    @property
    def strikes(self) -> list[Strike]:
        """All kills and pauses."""
        return [strike for change in self.changes for _, strike in change.strikes]


def schedule(seed: int) -> Schedule:
    """The schedule of a seed, which decides everything.

    Sizes go up and down again, so that tasks come to a newcomer and leave it: two hand-overs of the same task. One
    change at least comes a second after another, while that one is under way.
    """
    chance = random.Random(seed)
    strategy = chance.choices(list(_STRATEGIES), list(_STRATEGIES.values()))[0]
    opening = chance.choice(OPENINGS) if chance.random() < _OPENED else ()
    number = len(opening) + 1 if opening else chance.randint(*CHANGES)
    hasty, broken = chance.randrange(2, number), chance.randrange(1, number - 1)
    changes: list[Change] = []
    counts = [1, *(opening or (2,))]
    for index in range(number):
        if len(counts) == index + 1:
            counts.append(_next_size(chance, counts))
        strikes = [_strike_time(chance)] if chance.random() < _STRUCK else []
        if seed % BROKER_EVERY == 0 and index == broken:
            strikes.append((0.5, _strike_at_the_broker(chance, seed)))
        if 0 < index < len(opening):
            after_s, awaited = NEXT_GAP_S, True
        else:
            after_s, awaited = _gap(chance, hasty=index == hasty or (index > 1 and chance.random() < _HASTY))
        changes.append(Change(counts[index + 1], after_s, awaited, tuple(strikes)))
    return Schedule(strategy, tuple(changes))


def _gap(chance: random.Random, *, hasty: bool) -> tuple[float, bool]:
    """A second after the former change or after its newcomers have come; or time to finish it."""
    if hasty:
        return NEXT_GAP_S, chance.random() < 0.5
    return round(chance.uniform(*REST_GAPS_S), 2), True


def _next_size(chance: random.Random, counts: Sequence[int]) -> int:
    """Another size than the last; a smaller one if none was smaller so far, so that tasks return in every schedule."""
    count = counts[-1]
    possible = [size for size in range(LEAST, MOST + 1) if size != count]
    if list(counts) == sorted(counts) and len(counts) > 2:
        possible = [size for size in possible if size < count]
    return chance.choice(possible)


def _strike_time(chance: random.Random) -> tuple[float, Strike]:
    return round(chance.uniform(0.05, 2.0), 2), _strike(chance)


def _strike(chance: random.Random) -> Strike:
    victim = chance.choices(list(_VICTIMS), list(_VICTIMS.values()))[0]
    if chance.random() < _PAUSED:
        return Pause(victim, round(chance.choice([chance.uniform(0.2, 1.0), chance.uniform(1.0, LONG_S)]), 2))
    owner = victim in {Victim.OWNER, Victim.NEWCOMER}
    return Kill(
        victim,
        restart_s=round(chance.choice([0.0, chance.uniform(0.0, 1.5)]), 2),
        reported=chance.random() < _REPORTED,
        wiped=owner and chance.random() < _WIPED,
    )


def _strike_at_the_broker(chance: random.Random, seed: int) -> Strike:
    if seed // BROKER_EVERY % 2 == 0:
        return Kill(Victim.BROKER, restart_s=0.5)
    return Pause(Victim.BROKER, round(chance.uniform(1.0, LONG_S), 2))
