"""A join with a table that is part of the query: for a bounded side input."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from towpath.query.plan import OperatorContext


class Lookup:
    """Adds a table's columns to each row; rows without an entry are dropped, or get nulls."""

    def __init__(self, table: pl.DataFrame, on: Sequence[str], *, inner: bool) -> None:
        """``table``: one row for each value of the ``on`` columns."""
        self._table = table
        self._on = list(on)
        self._inner = inner

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:  # noqa: ARG002
        """Rows → rows with the table's columns."""
        return frame.join(self._table, on=self._on, how="inner" if self._inner else "left", maintain_order="left")
