"""The first rows of each key in an order: the newest row, the ten highest bids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import polars as pl

from towpath.operators.keyed_rows import GROUP


class Ranked:
    """Keeps the first rows of each key; see :class:`towpath.operators.keyed_rows.Reduction`.

    Rows go out whose place is new or holds another row than before, with the place if it has a name. A place that is
    taken stays so.
    """

    def __init__(
        self,
        columns: Sequence[str],
        places: int,
        by: Sequence[str],
        descending: Sequence[bool],
        *,
        rank: str | None = None,
        ties: Literal["first", "last"] = "first",
    ) -> None:
        """Fix the order.

        Args:
            columns: that are kept.
            places: at most so many rows of each key.
            by: columns of the order; nulls come last.
            descending: for each of them.
            rank: column that gets the place, from 1 on; None: it does not go out.
            ties: of rows equal in ``by``, the one that came first has the better place; ``last`` is for one place only.
        """
        self.columns = list(columns)
        self.places = places
        self.by = list(by)
        self.descending = list(descending)
        self.rank = rank
        self.ties = ties

    def rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """The first rows of each key in a batch."""
        return self._first(frame.select(GROUP, *self.columns))

    def step(self, before: pl.DataFrame, new: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The first rows of each key; places that are new or have another row go out."""
        after = self._first(pl.concat([before, new]))
        changed = _placed(after).join(_placed(before), on=[_PLACE, *after.columns], how="anti", nulls_equal=True)
        found = changed.select(GROUP, *self.columns)
        return after, found if self.rank is None else found.hstack([changed.get_column(_PLACE).alias(self.rank)])

    def _first(self, rows: pl.DataFrame) -> pl.DataFrame:
        arrived = rows.reverse() if self.ties == "last" else rows
        ordered = arrived.sort(self.by, descending=self.descending, nulls_last=True, maintain_order=True)
        return ordered.group_by(GROUP, maintain_order=True).head(self.places)


_PLACE = "__place"


def _placed(rows: pl.DataFrame) -> pl.DataFrame:
    """With the place of each row among those of its key (Int64)."""
    return rows.with_columns(pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over(GROUP).alias(_PLACE))
