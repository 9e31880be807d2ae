"""Figures of a hand-over, out of what an outsider saw: pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.tails import Outputs, Seen
from statemgr.control.records import Assigned, Done, Released

MS = 1000.0
LATE_MS = (100, 250, 500, 1000)


@dataclass(frozen=True)
class MoveTimes:
    """When the steps of a task's move were seen; seconds since the epoch, None: never.

    ``cut_s`` is when the former owner wrote its release: what was emitted later, the new owner has processed.
    """

    owner: str
    assigned_s: float
    cut_s: float | None
    done_s: float | None


def moves_of(seen: Iterable[Seen], stage: str) -> dict[int, MoveTimes]:
    """Partition → its newest move."""
    assigned: dict[int, Seen] = {}
    owners: dict[int, str] = {}
    released: dict[int, Seen] = {}
    done: dict[int, Seen] = {}
    for each in seen:
        record = each.record
        if isinstance(record, Assigned) and record.stage == stage:
            assigned[record.partition], owners[record.partition] = each, record.owner
        elif isinstance(record, Released) and record.stage == stage:
            released[record.partition] = each
        elif isinstance(record, Done) and record.stage == stage:
            done[record.partition] = each
    return {
        partition: MoveTimes(
            owner=owners[partition],
            assigned_s=each.seen_s,
            cut_s=_since(released.get(partition), each, lambda it: it.written_s),
            done_s=_since(done.get(partition), each, lambda it: it.seen_s),
        )
        for partition, each in assigned.items()
    }


def first_outputs_ms(outputs: Outputs, moves: Mapping[int, MoveTimes], hot: Collection[int]) -> dict[int, float]:
    """Partition → from the assignment to the first visible output of a hot key that the new owner has processed."""
    is_hot = np.isin(outputs.key, np.fromiter(hot, dtype=np.int64))
    found = {}
    for partition, move in moves.items():
        since_s = move.cut_s if move.cut_s is not None else move.assigned_s
        visible = outputs.visible_s[is_hot & (outputs.partition == partition) & (outputs.sched_s >= since_s)]
        if visible.size:
            found[partition] = round(float(visible.min() - move.assigned_s) * MS, 1)
    return found


def longest_gaps_ms(outputs: Outputs, partitions: Iterable[int], from_s: float, to_s: float) -> dict[int, float | None]:
    """Partition → longest time without a visible output in a window, its borders included; None: no output at all."""
    return {partition: _longest_gap_ms(outputs, partition, from_s, to_s) for partition in partitions}


def worst_latencies_ms(
    outputs: Outputs, partitions: Iterable[int], from_s: float, to_s: float
) -> dict[int, float | None]:
    """Partition → longest latency of what was meant to be emitted in a window, whenever it became visible."""
    found: dict[int, float | None] = {}
    for partition in partitions:
        within = (outputs.partition == partition) & (outputs.sched_s >= from_s) & (outputs.sched_s < to_s)
        found[partition] = round(float(outputs.latency_s[within].max()) * MS, 1) if within.any() else None
    return found


def late(outputs: Outputs, partitions: Iterable[int], from_s: float, to_s: float) -> dict[str, int]:
    """How many outputs of what was meant to be emitted in a window took longer than so many ms."""
    chosen = np.isin(outputs.partition, list(partitions)) & (outputs.sched_s >= from_s) & (outputs.sched_s < to_s)
    latency_ms = outputs.latency_s[chosen] * MS
    return {"outputs": int(chosen.sum())} | {f"over_{limit}_ms": int((latency_ms > limit).sum()) for limit in LATE_MS}


def spread(values: Iterable[float | None]) -> dict[str, float | None]:
    """Median and maximum."""
    known = [value for value in values if value is not None]
    if not known:
        return {"median": None, "max": None}
    return {"median": round(float(np.median(known)), 1), "max": round(max(known), 1)}


def latency_curve(
    outputs: Outputs, from_s: float, to_s: float, step_s: float
) -> dict[str, NDArray[np.float64] | Sequence[float]]:
    """Percentiles of latency per step of intended time: when it hurt, not when it was over."""
    edges = np.arange(from_s, to_s, step_s)
    slot = np.digitize(outputs.sched_s, edges) - 1
    rows: dict[str, list[float]] = {"at_s": [], "p50": [], "p99": [], "max": []}
    for number, edge in enumerate(edges):
        values = outputs.latency_s[slot == number] * MS
        if values.size:
            rows["at_s"].append(float(edge - from_s))
            for name, share in (("p50", 50), ("p99", 99), ("max", 100)):
                rows[name].append(float(np.percentile(values, share)))
    return dict(rows)


def progress_totals(polled: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Task → the last that was said of its move, over all answers of ``GET /migrations``."""
    last: dict[str, dict[str, Any]] = {}
    for each in polled:
        if each.get("progress"):
            last[f"{each['task']}@{each['epoch']}"] = dict(each["progress"])
    return last


def _longest_gap_ms(outputs: Outputs, partition: int, from_s: float, to_s: float) -> float | None:
    within = (outputs.partition == partition) & (outputs.visible_s >= from_s) & (outputs.visible_s < to_s)
    if not within.any():
        return None
    times = np.concatenate([[from_s], np.sort(outputs.visible_s[within]), [to_s]])
    return round(float(np.diff(times).max()) * MS, 1)


def _since(later: Seen | None, assigned: Seen, when: Any) -> float | None:
    """A time of a record that belongs to the assignment or to the tenure that it ends."""
    if later is None or later.seen_s < assigned.seen_s:
        return None
    return float(when(later))
