"""Restores from a changelog by one process, ours and Kafka Streams', in the same terms: pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.changelog_size import Size
from bench.handover_figures import moves_of
from bench.tails import Seen
from statemgr.control.records import Released

TARGET = "replay restores as fast as Kafka Streams: records per second over theirs"
LEAST_RATIO = 1.0

STARTED_TO_RUNNING = "started_to_running_s"
"""Theirs with all that comes before and after: group, stores, first turn; the start of the JVM alone is left out."""

UNDER_LOAD, WITHOUT_LOAD = "under_load", "without_load"
CONDITIONS = (UNDER_LOAD, WITHOUT_LOAD)


@dataclass(frozen=True)
class Restore:
    """One process has restored some partitions.

    Attributes:
        ends: partition → changelog offset up to which it was restored, exclusive.
        seconds: from the first one's begin to the last one's end.
        extra: what else is known of it.
    """

    ends: Mapping[int, int]
    seconds: float
    extra: Mapping[str, Any]

    def figures(self, size: Size) -> dict[str, Any]:
        """As they are printed."""
        return {
            "partitions": len(self.ends),
            "records": size.records,
            "bytes": size.bytes,
            "seconds": round(self.seconds, 3),
            "records_per_s": round(size.records / self.seconds),
            **self.extra,
        }


def replayed(seen: Iterable[Seen], stage: str) -> Restore | None:
    """Ours, out of the control log of one move; None where a step is missing.

    It begins with the first release, before which nothing may be read, and ends when the new owner has said of its last
    task that it runs. So it includes what theirs does not: opening the stores, and taking up the tasks.
    """
    history = list(seen)
    moves = moves_of(history, stage)
    cuts = {
        each.record.partition: each.record.offset
        for each in history
        if isinstance(each.record, Released) and each.record.stage == stage
    }
    ends = {partition: cuts.get(partition, -1) + 1 for partition in moves}
    begun = [move.cut_s for move in moves.values() if move.cut_s is not None]
    done = [move.done_s for move in moves.values() if move.done_s is not None]
    if not moves or not len(moves) == len(begun) == len(done) or not all(ends.values()):
        return None
    assigned_s = min(move.assigned_s for move in moves.values())
    return Restore(ends, max(done) - min(begun), {"assigned_to_running_s": round(max(done) - assigned_s, 3)})


def told_by_listener(answer: Mapping[str, Any], ends: Mapping[int, int]) -> Restore:
    """Theirs, out of what the restore listener was told.

    Args:
        answer: what :file:`Restore.java` says last.
        ends: partition → end of the changelog.
    """
    parts = answer["partitions"]
    seconds = max(part["ended_s"] for part in parts) - min(part["began_s"] for part in parts)
    return Restore(ends, seconds, {STARTED_TO_RUNNING: round(answer["running_s"] - answer["started_s"], 3)})


def ratio(
    ours: Mapping[str, Any] | None, theirs: Iterable[Mapping[str, Any]], seconds: str = "seconds"
) -> float | None:
    """Our records per second over those of their fastest.

    Args:
        ours: figures; None if there are none.
        theirs: figures by settings.
        seconds: which of their times counts.
    """
    fastest = max((each["records"] / each[seconds] for each in theirs), default=None)
    return round(ours["records_per_s"] / fastest, 2) if ours is not None and fastest else None


def target(restores: Mapping[str, Any]) -> dict[str, Any]:
    """Whether it is enough: the lowest ratio counts, and all must be known."""
    ratios = [restores.get(condition, {}).get("ratio") for condition in CONDITIONS]
    known = [each for each in ratios if each is not None]
    measured = min(known) if len(known) == len(ratios) else None
    return {
        "id": TARGET,
        "target": LEAST_RATIO,
        "measured": measured,
        "ok": measured is not None and measured >= LEAST_RATIO,
    }
