"""Which windows a row belongs to, and whether it comes too late for them."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from towpath.operators.json_encode import encode_json
from towpath.query.plan import PARTITION, WATERMARK, OperatorContext

WINDOW_START = "window_start"
WINDOW_END = "window_end"
"""Columns of a window's bounds in ms since the epoch (Int64); the end is not part of it."""


@dataclass(frozen=True)
class Window:
    """Windows of one size that begin at every multiple of ``slide_ms``: tumbling if that is the size, else hopping."""

    size_ms: int
    slide_ms: int

    @property
    def overlapping(self) -> int:
        """Windows that a moment belongs to."""
        return self.size_ms // self.slide_ms


class AssignWindows:
    """Adds the start of a row's window; with hopping windows, a row for each of them.

    A row is late for a window whose end the watermark had reached when the row came: it is left out and counted. A row
    without event time goes to the dead-letter topic.
    """

    def __init__(self, window: Window, on: str) -> None:
        """``on``: column of the event time, in ms (Int64)."""
        self._window = window
        self._on = on

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Rows → rows with ``window_start``."""
        frame = self._timed(frame, context)
        slide, count = self._window.slide_ms, self._window.overlapping
        newest = (pl.col(self._on) // slide * slide).cast(pl.Int64)
        if count == 1:
            rows = frame.with_columns(newest.alias(WINDOW_START))
        else:
            starts = pl.concat_list([newest - number * slide for number in range(count)])
            rows = frame.with_columns(starts.alias(WINDOW_START)).explode(WINDOW_START)
        if WATERMARK not in rows.columns:
            return rows
        open_ = rows.filter(pl.col(WINDOW_START) + self._window.size_ms > pl.col(WATERMARK))
        if open_.height < rows.height:
            context.late(rows.height - open_.height)
        return open_.drop(WATERMARK)

    def _timed(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        if not frame.get_column(self._on).null_count():
            return frame
        without = frame.filter(pl.col(self._on).is_null())
        reason = f"the event time is null: {self._on}"
        for partition, value in zip(without.get_column(PARTITION), encode_json(without), strict=True):
            context.dead_letter(partition, value, reason)
        return frame.filter(pl.col(self._on).is_not_null())
