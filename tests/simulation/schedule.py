"""What happens to a cluster in one run: size, weather, and strikes; all decided by the seed before the run begins.

What is simulated has to be survived without any difference in outputs and state: see
:class:`~tests.simulation.kinds.Kind`. Two things are not: the loss of *committed* records by the broker (a control log
or changelog that loses what it had acknowledged has lost a decision or a row's effect, and nothing else has them), and
the loss of every copy of the changelog. What a broker may lose, and loses here, is its tail of records of transactions
that were never committed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from statemgr.control.records import Manner, Strategy
from tests.simulation.broker import Unanswered
from tests.simulation.case import Case
from tests.simulation.counts import Counts
from tests.simulation.kinds import FURTHER, PLANNED, WEIGHTS, Kind
from tests.simulation.load import MOST_KEYS, Planned, plan_load
from tests.simulation.network import Weather
from tests.simulation.windows import Windows


@dataclass(frozen=True)
class Strike:
    """One thing that happens."""

    at_s: float
    kind: Kind
    args: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind} {self.args or ''}".rstrip()


@dataclass(frozen=True)
class Schedule:
    """All of a run that is decided beforehand.

    Attributes:
        partitions: of the input, so also tasks.
        replicas: at the begin.
        manner: at the begin.
        load: the input.
        strikes: in order of time.
        reactions: strikes that come so many seconds after the n-th change of an owner.
        calm_s: when everything that was stopped goes on, and no more happens.
        weather: of the network.
        marker_lag_s: between a commit's answer and its first marker (R6).
        marker_spread_s: between the markers of one transaction.
        haste: see :class:`~tests.simulation.world.World`.
        parking_rows: room for parked rows of a task.
        case: what runs.
    """

    partitions: int
    replicas: int
    manner: Manner
    load: tuple[Planned, ...]
    strikes: tuple[Strike, ...]
    reactions: Mapping[int, Strike]
    calm_s: float
    weather: Weather
    marker_lag_s: float
    marker_spread_s: float
    haste: float
    parking_rows: int
    case: Case

    @property
    def only_planned(self) -> bool:
        """Whether nothing happens but planned moves, none of which stops the stage."""
        manners = [self.manner, *(strike.args.get("manner") for strike in self._all())]
        stops = any(manner is not None and manner.strategy is Strategy.RESTART for manner in manners)
        return not stops and self.weather == Weather() and all(strike.kind in PLANNED for strike in self._all())

    def _all(self) -> tuple[Strike, ...]:
        return (*self.strikes, *self.reactions.values())


STRATEGIES = (
    (Strategy.HYBRID, 8),
    (Strategy.LAZY, 6),
    (Strategy.BLOCK, 2),
    (Strategy.PRECOPY, 2),
    (Strategy.STANDBY, 1),
    (Strategy.REPLAY, 1),
    (Strategy.RESTART, 2),
)
"""With their weights; those with partial state have the most states, and so get the most runs."""


BEGIN_S = 0.5
"""Earliest strike: tasks are assigned by then."""


@dataclass(frozen=True)
class Flavour:
    """What the schedules of some runs have in common.

    Attributes:
        often: kinds that happen with other weights than usual.
        strategy: how state travels, in all of the run; None: whatever comes.
        records: number of input records; None: 20 to 70.
        strikes: number of strikes; None: 1 to 9.
        marker_lag_s: see :class:`Schedule`; None: whatever comes.
        further: whether the kinds of :data:`~tests.simulation.kinds.FURTHER` come, too.
        windows: whether the case of event time runs, and not that of counts.
    """

    often: Mapping[Kind, float] = field(default_factory=dict)
    strategy: Strategy | None = None
    records: int | None = None
    strikes: int | None = None
    marker_lag_s: float | None = None
    further: bool = False
    windows: bool = False


ANY = Flavour(further=True)
"""Whatever comes."""

ANY_WINDOWS = Flavour(further=True, windows=True)
"""The same in event time."""

PLANNED_MOVES = Flavour({kind: 0 for kind in WEIGHTS if kind not in PLANNED}, records=160)
"""Planned moves and nothing else, under load."""

TURNS = (ANY, ANY, ANY, ANY, ANY_WINDOWS, ANY, ANY, ANY, ANY_WINDOWS, PLANNED_MOVES)
"""What seeds have, in turns. By chance one in a hundred would have nothing but planned moves."""

WINDOWS = ((20, 20), (60, 20), (150, 150), (2_000, 1_000))
"""Size and slide; event time goes on by some 300 ms, and by 1,000 at the end: some of the last ones stay open."""


def scheduled(seed: int) -> Schedule:
    """The schedule of a seed, if nothing else is asked for."""
    return plan(seed, TURNS[seed % len(TURNS)])


def plan(seed: int, flavour: Flavour = ANY) -> Schedule:
    """The schedule of a seed."""
    rng = random.Random(f"schedule {seed}")
    choice = _Choice(rng, {**WEIGHTS, **flavour.often}, flavour.strategy)
    partitions = rng.randint(2, 4)
    load_s = 1.5 + rng.random() * 2.5
    calm_s = load_s + rng.random() * 1.5
    stormy = rng.random() < 0.4
    strikes = _strikes(choice, partitions, calm_s, flavour.strikes)
    further = _further(seed, partitions, strikes, calm_s) if flavour.further else []
    busy_s = [strike.at_s for strike in strikes]
    return Schedule(
        partitions=partitions,
        replicas=rng.randint(1, 3),
        manner=choice.manner(),
        load=tuple(plan_load(rng, partitions, flavour.records or rng.randint(20, 70), load_s, busy_s)),
        strikes=tuple(sorted([*strikes, *further], key=lambda strike: strike.at_s)),
        reactions={
            rng.randrange(6): choice.strike(partitions, rng.random() * 0.12) for _ in range(rng.choice((0, 1, 2, 3)))
        },
        calm_s=calm_s,
        weather=_weather(rng) if stormy else Weather(),
        marker_lag_s=flavour.marker_lag_s or rng.choice((0.0, 0.0, 0.01, 0.1)),
        marker_spread_s=flavour.marker_lag_s or rng.choice((0.0, 0.0, 0.02, 0.2)),
        haste=rng.choice((0.95, 0.85, 0.6)),
        parking_rows=rng.choice((3, 1000, 1000)),
        case=Windows(*random.Random(f"windows {seed}").choice(WINDOWS)) if flavour.windows else Counts(),
    )


class _Choice:
    """What is chosen, by chance and with weights."""

    def __init__(self, rng: random.Random, weights: Mapping[Kind, float], strategy: Strategy | None) -> None:
        self.rng = rng
        self._kinds = tuple(weights)
        self._weights = tuple(weights.values())
        self._strategy = strategy

    def manner(self) -> Manner:
        """How state travels."""
        rng = self.rng
        strategies, weights = zip(*STRATEGIES, strict=True)
        chosen = rng.choices(strategies, weights)[0]
        return Manner(
            strategy=self._strategy or chosen,
            priority=rng.random() < 0.7,
            look_ahead=rng.random() < 0.8,
            key_filter=rng.random() < 0.3,
            pacing=rng.choice((0.05, 0.25, 1.0)),
            bins=rng.choice((1, 8, 8, 32, 256)),
        )

    def strike(self, partitions: int, at_s: float) -> Strike:
        """Something that happens."""
        kind = self.rng.choices(self._kinds, self._weights)[0]
        args = ARGUMENTS.get(kind, _nothing)(self.rng, partitions)
        if kind is Kind.SCALE:
            args["manner"] = self.manner() if self.rng.random() < 0.5 else None
        return Strike(at_s, kind, {"whom": self.rng.randrange(100), **args})


def _weather(rng: random.Random) -> Weather:
    return Weather(
        lost=rng.choice((0.0, 0.02, 0.15)),
        twice=rng.choice((0.0, 0.05, 0.2)),
        slow=rng.choice((0.0, 0.05, 0.2)),
        slow_s=rng.choice((0.3, 2.0)),
    )


def _strikes(choice: _Choice, partitions: int, until_s: float, wanted: int | None) -> list[Strike]:
    rng = choice.rng
    number = wanted or rng.randint(1, 9)
    moments = sorted(BEGIN_S + rng.random() * (until_s - BEGIN_S) for _ in range(number))
    if rng.random() < 0.5:  # bunched: what interrupts what is under way comes soon after it
        moments = sorted(moments[0] + rng.random() * 0.6 for _ in moments)
    return [choice.strike(partitions, at_s) for at_s in moments]


def _further(seed: int, partitions: int, strikes: Sequence[Strike], until_s: float) -> list[Strike]:
    """Strikes of the kinds that are drawn apart; many come soon after another one."""
    rng = random.Random(f"further {seed}")
    found = []
    for kind, probability in FURTHER.items():
        near = rng.random() < 0.5
        at_s = rng.choice(strikes).at_s + rng.random() * 0.3 if near else BEGIN_S + rng.random() * (until_s - BEGIN_S)
        args = {"whom": rng.randrange(100), **ARGUMENTS[kind](rng, partitions)}
        if rng.random() < probability:
            found.append(Strike(min(at_s, until_s), kind, args))
    return found


def _nothing(rng: random.Random, partitions: int) -> dict[str, Any]:
    return {}


def _calls(rng: random.Random, _: int) -> dict[str, Any]:
    return {"calls": rng.choice((0, rng.randrange(10), rng.randrange(60)))}


def _early(rng: random.Random, _: int) -> dict[str, Any]:
    return {"calls": rng.randrange(20), "then": rng.randint(1, 40)}


def _pause(rng: random.Random, _: int) -> dict[str, Any]:
    return {"calls": rng.randrange(40), "seconds": rng.choice((0.1, 0.5, 1.5, 4.0)) * (0.5 + rng.random())}


ARGUMENTS: dict[Kind, Callable[[random.Random, int], dict[str, Any]]] = {
    Kind.KILL: _calls,
    Kind.KILL_EARLY: _early,
    Kind.STOP: _pause,
    Kind.STOP_IN_CALL: _pause,
    Kind.SCALE: lambda rng, _: {"replicas": rng.randint(1, 4)},
    Kind.MOVE: lambda rng, partitions: {"partition": rng.randrange(partitions)},
    Kind.HOLDER_STOP: _pause,
    Kind.HOLDER_CUT: _pause,
    Kind.COPY_LOST: lambda rng, partitions: {"partition": rng.randrange(partitions)},
    Kind.COORDINATOR_KILL: _calls,
    Kind.COORDINATOR_STOP: _pause,
    Kind.COORDINATOR_TWICE: _pause,
    Kind.CLOCK: lambda rng, _: {"seconds": rng.choice((-40.0, -3.0, 3.0, 40.0, 7200.0))},
    Kind.COMPACT: lambda rng, _: {"seconds": 0.0},
    Kind.UNKNOWN_OUTCOME: lambda rng, _: {"after": rng.random() < 0.6},
    Kind.CALL_FAILS: lambda rng, _: {
        "call": rng.choice(("init_transactions", "send_offsets", "flush", "commit", "produce_batch", "bounds")),
    },
    Kind.TAIL_LOST: lambda rng, partitions: {"partition": rng.randrange(partitions)},
    Kind.SLOW_DISK: lambda rng, _: {"seconds": rng.choice((0.02, 0.3))},
    Kind.NIGHT: lambda rng, _: {"seconds": rng.choice((31.0, 61.0))},
    Kind.READ: lambda rng, partitions: {"partition": rng.randrange(partitions), "key": rng.randrange(MOST_KEYS)},
    Kind.BROKER_AWAY: lambda rng, _: {
        "seconds": rng.choice((0.3, 1.5, 5.0, 12.0)) * (0.5 + rng.random()),
        "unanswered": rng.choice(list(Unanswered)),
        "at": rng.choice(("", "bounds", "init_transactions", "flush", "commit", "commit")),
    },
    Kind.DISK_FULL: lambda rng, _: {
        "seconds": rng.choice((0.1, 0.5, 1.5)) * (0.5 + rng.random()),
        "unreadable": rng.random() < 0.5,
    },
}
"""Further arguments of a strike."""
