"""The code of faults in windows of event time; :mod:`tests.simulation.mutations` switches them on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import polars as pl

from statemgr.types import TopicPartition
from towpath.operators.timers import Timers
from towpath.query.plan import PARTITION, WATERMARK
from towpath.stage.absent import AbsentTimers
from towpath.stage.event_time import StageTime
from towpath.stage.gate import Gate

# --- state that is elsewhere (R14) ---


def nothing_earliest(self: AbsentTimers, open_bins: Collection[int]) -> int | None:
    """What is elsewhere does not count."""
    return None


def none_due(self: AbsentTimers, watermark_ms: int, open_bins: Collection[int]) -> list[int]:
    """Bins come when they come."""
    return []


def catch_nothing_up(self: Timers) -> None:
    """What was read at the beginning is all there is."""
    self._open_bins = self._state.open_bins


# --- rows that wait ---


def never_ready(self: Gate, partition: int) -> bool:
    """Windows close whatever waits for them."""
    return False


_leave = Gate.leave


def leave_and_judge(self: Gate) -> list[pl.DataFrame]:
    """Rows that waited count as if they came now."""
    now = {partition: task.watermarks.current for partition, task in self._tasks.items() if task.watermarks is not None}
    return [
        frame.with_columns(pl.col(PARTITION).replace_strict(now, return_dtype=pl.Int64).alias(WATERMARK))
        for frame in _leave(self)
    ]


_advance = StageTime.advance


def advance_at_once(self: StageTime, stops: Mapping[TopicPartition, Any]) -> None:
    """Marks behind what there was no room for are taken as if it had been taken."""
    _advance(self, {})
