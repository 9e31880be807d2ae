"""Which windows of event time a row belongs to."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from towpath.operators.json_encode import encode_json
from towpath.query.plan import PARTITION, OperatorContext

WINDOW_START = "window_start"
WINDOW_END = "window_end"
"""Columns of a window's bounds in ms since the epoch (Int64); the end is not part of it."""


@dataclass(frozen=True)
class Session:
    """Rows of a key that follow one another within ``gap_ms`` belong together."""

    gap_ms: int


@dataclass(frozen=True)
class Window:
    """Windows of one size that begin at every multiple of ``slide_ms``: tumbling if that is the size, else hopping."""

    size_ms: int
    slide_ms: int

    @property
    def overlapping(self) -> int:
        """Windows that a moment belongs to."""
        return self.size_ms // self.slide_ms


@dataclass(frozen=True)
class Until:
    """Rows of a key belong together that name the same moment in a column, until event time has come to it."""

    column: str


@dataclass(frozen=True)
class Every:
    """Windows by the number of rows of a key: after every so many of them, over the last ``panes`` times as many."""

    rows: int
    panes: int


class AssignWindows:
    """Adds the end of a row's window; with hopping windows, a row for each of them."""

    def __init__(self, window: Window | Until, on: str) -> None:
        """``on``: column of the event time, in ms (Int64)."""
        self._window = window
        self._on = on

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:  # noqa: ARG002
        """Rows → rows with ``window_end``."""
        match self._window:
            case Until(column):
                return frame.with_columns(pl.col(column).alias(WINDOW_END))
            case Window(size, slide) as window:
                newest = (pl.col(self._on) // slide * slide + size).cast(pl.Int64)
                if window.overlapping == 1:
                    return frame.with_columns(newest.alias(WINDOW_END))
                ends = pl.concat_list([newest - number * slide for number in range(window.overlapping)])
                return frame.with_columns(ends.alias(WINDOW_END)).explode(WINDOW_END)


class RequireEventTime:
    """Sends rows without event time to the dead-letter topic: they belong to no window."""

    def __init__(self, on: str) -> None:
        """``on``: column of the event time."""
        self._on = on

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Rows → those that have an event time."""
        if not frame.get_column(self._on).null_count():
            return frame
        without = frame.filter(pl.col(self._on).is_null())
        reason = f"the event time is null: {self._on}"
        for partition, value in zip(without.get_column(PARTITION), encode_json(without), strict=True):
            context.dead_letter(partition, value, reason)
        return frame.filter(pl.col(self._on).is_not_null())
