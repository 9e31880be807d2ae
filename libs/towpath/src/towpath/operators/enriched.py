"""A join of rows with the row that a table has for their key: rows wait until there is one.

Both come in one stream; an expression tells which rows are the table's. Known as stream–table join.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from towpath.operators.keyed_rows import GROUP

_OF_TABLE = "__of_table"


class Enriched:
    """Keeps the table's newest row of each key, or the rows that wait for one.

    See :class:`towpath.operators.keyed_rows.Reduction`. The rows of a batch meet the table's row as it is behind the
    batch: a table is for facts that do not change often, and which of two rows of different topics comes first is
    chance anyway.
    """

    def __init__(self, table: pl.Expr, columns: Sequence[str], taken: Mapping[str, str]) -> None:
        """Fix the sides.

        Args:
            table: whether a row is the table's; null counts as false.
            columns: of the rows that come out, before the table's are added.
            taken: column that comes out → the table's column that it is.
        """
        self._table = table
        self.columns = [name for name in columns if name not in taken]
        self.taken = dict(taken)
        self._read = list(dict.fromkeys([*self.columns, *taken.values()]))

    def rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Rows of both sides, told apart by a column."""
        return frame.select(GROUP, self._table.fill_null(value=False).alias(_OF_TABLE), *self._read)

    def step(self, before: pl.DataFrame, new: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The table's newest rows, and for keys without one those that wait; rows whose key has one go out."""
        rows = pl.concat([before, new])
        facts = rows.filter(_OF_TABLE).group_by(GROUP, maintain_order=True).last().select(rows.columns)
        others = rows.filter(~pl.col(_OF_TABLE))
        waiting = others.join(facts, on=GROUP, how="anti", maintain_order="left")
        known = facts.select(GROUP, **{name: pl.col(column) for name, column in self.taken.items()})
        found = others.select(GROUP, *self.columns).join(known, on=GROUP, how="inner", maintain_order="left")
        return pl.concat([facts, waiting]), found
