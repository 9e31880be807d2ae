"""All rows of a key that have the greatest value of a column."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from towpath.operators.keyed_rows import GROUP


class Highest:
    """Keeps the rows with the greatest value, ties included; see :class:`towpath.operators.keyed_rows.Reduction`.

    Rows go out that are among them and were not before.
    """

    def __init__(self, columns: Sequence[str], by: str) -> None:
        """``columns``: that are kept; rows without a value of ``by`` are not."""
        self.columns = list(columns)
        self.by = by

    def rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The highest rows of each key in a batch."""
        return self._highest(frame.select(GROUP, *self.columns))

    def step(self, before: pl.DataFrame, new: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The highest rows of each key; those that are new go out."""
        after = self._highest(pl.concat([_tagged(before, new=False), _tagged(new, new=True)]))
        return after.drop(_NEW), after.filter(_NEW).drop(_NEW)

    def _highest(self, rows: pl.DataFrame) -> pl.DataFrame:
        return rows.filter(pl.col(self.by) == pl.col(self.by).max().over(GROUP))


_NEW = "__new"


def _tagged(rows: pl.DataFrame, *, new: bool) -> pl.DataFrame:
    return rows.with_columns(pl.lit(new).alias(_NEW))
