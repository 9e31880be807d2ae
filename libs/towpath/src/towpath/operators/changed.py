"""Aggregates of which only those go out that have changed: for results that are shown again at each change."""

from __future__ import annotations

import polars as pl

from towpath.operators.aggregates import Aggregates
from towpath.operators.keyed_rows import GROUP


class Changed:
    """Keeps what the aggregates keep; see :class:`towpath.operators.keyed_rows.Reduction`."""

    def __init__(self, aggregates: Aggregates) -> None:
        self._aggregates = aggregates

    def rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Parts of each key's rows in a batch."""
        return self._aggregates.rows(frame)

    def step(self, before: pl.DataFrame, new: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Parts of each key over all of its rows; aggregates go out that are not as before."""
        after, found = self._aggregates.step(before, new)
        known = before.select(GROUP, *self._aggregates.finished)
        return after, found.join(known, on=found.columns, how="anti", nulls_equal=True, maintain_order="left")
