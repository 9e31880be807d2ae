"""Which event met which state of the protocol: counted over all runs, printed as a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

STATES = ("unassigned", "waiting", "asking", "opening", "filling", "incomplete", "complete", "releasing")
"""States of a task: those of an arrival, then running with and without all of its state, then assigned away."""

Coverage = Counter[tuple[str, str]]
"""(state, event) → how often."""


def table(coverage: Mapping[tuple[str, str], int]) -> str:
    """State × event, one line an event."""
    events = sorted({event for _, event in coverage})
    width = max((len(event) for event in events), default=5)
    lines = [" " * width + "".join(f"{state:>11}" for state in STATES)]
    for event in events:
        counts = (coverage.get((state, event), 0) for state in STATES)
        lines.append(f"{event:<{width}}" + "".join(f"{count or '·':>11}" for count in counts))
    return "\n".join(lines)
