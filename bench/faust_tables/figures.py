"""Figures out of what workers have written down: pure."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tests.harness.faust_tables.journal import EVENT, REVOKED, Lines

MS = 1000.0


@dataclass(frozen=True)
class Move:
    """What a rebalance did to events.

    Attributes:
        moved: partitions that changed their worker.
        first_ms: from the rebalance to the first event of a moved partition: the soonest one.
        all_ms: and until every moved partition has had one.
        gap_ms: longest time without an event, over all partitions: what stays stands still, too.
        missed_ms: from the last event of the worker that left to the rebalance: until its group missed it.
    """

    moved: int
    first_ms: float | None
    all_ms: float | None
    gap_ms: float
    missed_ms: float | None


def move(journals: Mapping[str, Lines], begin: float, end: float) -> Move:
    """The rebalance between two moments, in s of the wall clock.

    It begins when the first worker is told that its partitions are revoked.
    """
    lines = {name: each[(each["time"] >= begin) & (each["time"] <= end)] for name, each in journals.items()}
    revoked = [float(each["time"][each["what"] == REVOKED].min()) for each in lines.values() if _has(each, REVOKED)]
    handed = list(_handed_over(lines))
    start = min(revoked, default=None)
    sooner = sorted(first for _, first in handed)
    gap = max((gap for each in _partitions(lines).values() for gap in np.diff(each[0])), default=0.0)
    return Move(
        moved=len(handed),
        first_ms=_ms(start, sooner[0]) if sooner else None,
        all_ms=_ms(start, sooner[-1]) if sooner else None,
        gap_ms=round(MS * float(gap), 1),
        missed_ms=_ms(max(last for last, _ in handed), start) if handed and start is not None else None,
    )


def rate(lines: Lines) -> float:
    """Events a second, between the first and the last one."""
    times = lines["time"][lines["what"] == EVENT]
    return round((len(times) - 1) / float(times.max() - times.min()), 1) if len(times) > 1 else 0.0


def summary(rounds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Median of every figure over the rounds, figures within figures included."""
    merged: dict[str, Any] = {}
    for name in rounds[0]:
        values = [each[name] for each in rounds if each.get(name) is not None]
        if values and isinstance(values[0], Mapping):
            merged[name] = summary(values)
        elif values and isinstance(values[0], bool):
            merged[name] = all(values)
        elif values and isinstance(values[0], (int, float)):
            merged[name] = statistics.median(values)
        else:
            merged[name] = values[0] if values else None
    return merged


def as_figures(found: Move) -> dict[str, Any]:
    """For JSON."""
    return asdict(found)


def _handed_over(lines: Mapping[str, Lines]) -> Iterable[tuple[float, float]]:
    """For each partition that changed its worker: its former worker's last event, the new one's first."""
    for times, workers in _partitions(lines).values():
        changes = np.flatnonzero(workers[1:] != workers[:-1])
        if len(changes):
            yield float(times[changes[-1]]), float(times[changes[-1] + 1])


def _partitions(lines: Mapping[str, Lines]) -> dict[int, tuple[Any, Any]]:
    """Partition → times of its events, and which worker each was at."""
    events = [each[each["what"] == EVENT] for each in lines.values()]
    numbers = np.concatenate([np.full(len(each), number) for number, each in enumerate(events)])
    joined = np.concatenate(events)
    found = {}
    for partition in np.unique(joined["partition"]).tolist():
        here = joined["partition"] == partition
        order = np.argsort(joined["time"][here], kind="stable")
        found[partition] = joined["time"][here][order], numbers[here][order]
    return found


def _has(lines: Lines, what: int) -> bool:
    return bool((lines["what"] == what).any())


def _ms(begin: float | None, end: float) -> float | None:
    return None if begin is None else round(MS * (end - begin), 1)
