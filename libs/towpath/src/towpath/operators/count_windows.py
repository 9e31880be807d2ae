"""Windows by the number of rows of a key: a result after every so many rows, over the last so many.

Rows of a key are cut into *panes* of as many rows as lie between two results; a window is a number of whole panes, and
what is kept are the panes that later windows have in common, and the one that is not full. Known as count windows;
panes: Li et al., "No Pane, No Gain", SIGMOD Record 2005.
"""

from __future__ import annotations

import polars as pl

from towpath.operators.aggregates import Aggregates
from towpath.operators.keyed_rows import GROUP

ROWS = "rows"
"""Column of a kept pane, before those of the aggregates: number of its rows (Int64)."""

_PANE, _WINDOW = "__pane", "__window"
"""Place of a pane among those of its key, and of the last pane of a window."""


class CountWindows:
    """Keeps panes; see :class:`towpath.operators.keyed_rows.Reduction`. What goes out are windows that became full."""

    def __init__(self, every: int, panes: int, aggregates: Aggregates) -> None:
        """``every``: rows between two results; ``panes``: so many times of these are a window."""
        self._every = every
        self._panes = panes
        self._aggregates = aggregates

    def rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A pane for each row."""
        each = frame.with_columns(pl.int_range(pl.len(), dtype=pl.UInt32).alias(GROUP))
        own = frame.select(GROUP, pl.repeat(1, pl.len(), dtype=pl.Int64).alias(ROWS))
        return own.hstack(self._aggregates.rows(each).drop(GROUP))

    def step(self, before: pl.DataFrame, new: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The panes of each key that later windows need, and the windows that the new rows have filled."""
        merging = self._aggregates.merging(new.schema)
        rows = pl.concat([before, new]).sort(GROUP, maintain_order=True)
        place = (pl.col(ROWS).cum_sum().over(GROUP) - pl.col(ROWS)) // self._every
        placed = rows.with_columns(place.alias(_PANE))
        panes = placed.group_by(GROUP, _PANE, maintain_order=True).agg(pl.col(ROWS).sum(), *merging)
        full = pl.col(ROWS) == self._every
        number = panes.select(full.cast(pl.Int64).sum().over(GROUP)).to_series()
        after = panes.filter(pl.col(_PANE) > number - self._panes).drop(_PANE)
        return after, self._windows(before, panes.filter(full), merging).select(GROUP, *self._aggregates.finished)

    def _windows(self, before: pl.DataFrame, panes: pl.DataFrame, merging: list[pl.Expr]) -> pl.DataFrame:
        """Windows whose last pane is full now and was not before."""
        had = before.group_by(GROUP).agg((pl.col(ROWS) == self._every).sum().cast(pl.Int64).alias(_WINDOW))
        first = pl.max_horizontal(pl.col(_WINDOW).fill_null(0), pl.lit(self._panes - 1))
        panes = panes.join(had, on=GROUP, how="left", maintain_order="left").with_columns(first.alias(_WINDOW))
        ends = pl.int_ranges(pl.max_horizontal(_PANE, _WINDOW), pl.col(_PANE) + self._panes)
        last = pl.col(_PANE).max().over(GROUP)
        spread = panes.with_columns(ends.alias(_WINDOW), last.alias(_PANE))
        spread = spread.explode(_WINDOW).filter(pl.col(_WINDOW) <= pl.col(_PANE))
        ordered = spread.sort(GROUP, _WINDOW, maintain_order=True)
        return ordered.group_by(GROUP, _WINDOW, maintain_order=True).agg(merging)
