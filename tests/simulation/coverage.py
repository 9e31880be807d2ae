"""Which event met which state of the protocol: counted over all runs, printed as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import wrap

from tests.simulation.kinds import Kind

ARRIVING = ("unassigned", "waiting", "asking", "opening", "filling")
"""States of a task until it runs: those of an arrival."""

MIGRATING: Mapping[str, str] = {
    "making a scratch base from the changelog": "scratch",
    "hot keys": "hot keys",
    "bins": "bins",
    "on demand": "on demand",
}
"""States of a task that runs without all of its state: phases of its migration job."""

STATES = (*ARRIVING, *MIGRATING.values(), "complete", "releasing")
"""States of a task; the last ones: it has all of its state, and it is assigned away."""

STEPS = ("prepare", "committed", "released", "running")
"""Steps of a move that has not ended, as the coordinator sees it."""

DEATHS = ("replica dies", "holder dies", "coordinator dies")
"""Counted at the moment of the death, where a strike may only be planned for a later call."""

EVENTS = (*sorted(Kind), *DEATHS)
"""What meets the states: every kind of strike, and what follows from some."""

LINE = 100
"""Longest line of what was not met."""

Coverage = Counter[tuple[str, str]]
"""(state or step, event) → how often."""


def report(coverage: Mapping[tuple[str, str], int]) -> str:
    """Tables, and what is missing in them."""
    parts = [
        f"states of tasks that were met\n{table(coverage, STATES)}",
        f"steps of moves that were met\n{table(coverage, STEPS)}",
        missing(coverage),
    ]
    return "\n\n".join(parts)


def table(coverage: Mapping[tuple[str, str], int], states: Sequence[str]) -> str:
    """Event × state, one line an event, those that never came included."""
    width = max(map(len, EVENTS))
    widths = [max(len(state), 5) + 2 for state in states]

    def line(event: str, cells: Sequence[object]) -> str:
        return f"{event:<{width}}" + "".join(f"{cell:>{wide}}" for cell, wide in zip(cells, widths, strict=True))

    rows = [line(event, [coverage.get((state, event), 0) or "·" for state in states]) for event in EVENTS]
    return "\n".join([line("", states), *rows])


def missing(coverage: Mapping[tuple[str, str], int]) -> str:
    """Kinds that never struck, and of each state what it has not met; or what it has, where that is less."""
    met = {cell for cell, count in coverage.items() if count}
    struck = {event for _, event in met}
    never = [event for event in EVENTS if event not in struck]
    lines = [*_listed("never came", never)]
    for state in (*STATES, *STEPS):
        found = [event for event in EVENTS if (state, event) in met]
        rest = [event for event in EVENTS if event in struck and event not in found]
        if not found:
            lines += [f"{state}: met by nothing"]
        elif rest:
            shorter = len(found) < len(rest)
            lines += _listed(f"{state}: met only by" if shorter else f"{state}: not met by", found if shorter else rest)
    cells = len(EVENTS) * (len(STATES) + len(STEPS))
    return "\n".join([f"{len(met)} of {cells} cells were met", *lines])


def _listed(what: str, names: Sequence[str]) -> list[str]:
    return wrap(f"{what}: {', '.join(names)}", LINE, subsequent_indent="  ") if names else []
