"""Operators that put something out when event time has come so far."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import polars as pl

from statemgr.watermarks import NEVER
from towpath.operators.timers import TaskTimers
from towpath.query.plan import WATERMARK, OperatorContext


@runtime_checkable
class Timed(Protocol):
    """An operator with timers, which are part of its state.

    Attributes:
        timers: of its tasks.
    """

    timers: TaskTimers

    def waits_for(self, rows: pl.DataFrame) -> pl.Series:
        """Of rows that wait for state: the event time before which nothing comes of each, in ms (Int64)."""
        ...

    def close(self, partition: int, watermark_ms: int, context: OperatorContext, most: int) -> pl.DataFrame:
        """Rows for timers that the watermark has reached, about ``most`` entries of state at a time."""
        ...


def came_at(rows: pl.DataFrame) -> pl.Series:
    """The watermark at which each row came, in ms (Int64): what comes of one that was not late is not earlier."""
    if WATERMARK in rows.columns:
        return rows.get_column(WATERMARK)
    return pl.repeat(NEVER, rows.height, dtype=pl.Int64, eager=True)
