"""A join of rows with the row that a table has for their key: rows wait until there is one.

Both come in one stream; an expression tells which rows are the table's. Known as stream–table join.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from towpath.operators.growing_rows import Growth
from towpath.operators.keyed_rows import GROUP

_OF_TABLE = "__of_table"


class Enriched:
    """Keeps the table's newest row of each key, or the rows that wait for one.

    See :class:`towpath.operators.growing_rows.Growing`. The rows of a batch meet the table's row as it is behind the
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

    def needs(self, new: pl.DataFrame) -> pl.Series:
        """Keys for which the table has a row now: whatever waits for it goes out."""
        return new.filter(_OF_TABLE).get_column(GROUP).unique()

    def grow(self, before: pl.DataFrame, new: pl.DataFrame) -> Growth:
        """The table's newest rows alone are kept, and behind others those that wait; rows whose key has one go out.

        The table's row is the only one of its key that is kept, so it is never among those that are left out.
        """
        anew = self.needs(new)
        rows = pl.concat([before, new])
        facts = rows.filter(_OF_TABLE).group_by(GROUP, maintain_order=True).last().select(rows.columns)
        begun = facts.join(anew.to_frame(), on=GROUP, how="semi", maintain_order="left")
        waiting = new.join(facts, on=GROUP, how="anti", maintain_order="left")
        known = facts.select(GROUP, **{name: pl.col(column) for name, column in self.taken.items()})
        others = rows.filter(~pl.col(_OF_TABLE)).select(GROUP, *self.columns)
        found = others.join(known, on=GROUP, how="inner", maintain_order="left")
        return Growth(pl.concat([begun, waiting]), anew, found)
