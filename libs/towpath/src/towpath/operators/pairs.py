"""Pairs of rows of two streams that belong together.

Both sides come in one stream; a column tells them apart. A row has nulls in the columns of the other side.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import polars as pl

from towpath.operators.growing_rows import Growth
from towpath.operators.keyed_rows import GROUP

RIGHT = "join.right"
"""Column that says whether a row is of the right side (Boolean)."""

TIME = "join.time"
"""Column with a row's event time, in ms (Int64)."""

How = Literal["inner", "left"]
"""Whether a left row without a partner comes out, too, with nulls for the right side."""


class Pairs:
    """Keeps all rows of both sides; see :class:`towpath.operators.growing_rows.Growing`.

    A pair goes out when the later of its rows comes.

    Attributes:
        left: columns of the left side that come out.
        right: column that comes out → column of the right side.
        told: columns that are kept besides.
    """

    told: tuple[str, ...] = (RIGHT,)

    def __init__(self, left: Sequence[str], right: Mapping[str, str]) -> None:
        self.left = list(left)
        self.right = dict(right)

    def rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Which side rows are of, and the columns of both sides."""
        return frame.select(GROUP, *self.told, *self.left, *dict.fromkeys(self.right.values()))

    def needs(self, new: pl.DataFrame) -> pl.Series | None:  # noqa: ARG002
        """Any row may be a partner."""
        return None

    def grow(self, before: pl.DataFrame, new: pl.DataFrame) -> Growth:
        """All rows are kept; pairs with a new row in them go out."""
        old, left, right = before.filter(~pl.col(RIGHT)), new.filter(~pl.col(RIGHT)), new.filter(RIGHT)
        everything = pl.concat([before, new])
        pairs = [self._pairs(old, right), self._pairs(left, everything.filter(RIGHT))]
        return Growth(new, _no_group(new), pl.concat(pairs))

    def _pairs(self, left: pl.DataFrame, right: pl.DataFrame, how: How = "inner") -> pl.DataFrame:
        ours = left.select(GROUP, *self.left)
        theirs = right.select(GROUP, **{name: pl.col(column) for name, column in self.right.items()})
        return ours.join(theirs, on=GROUP, how=how, maintain_order="left_right")


class WindowPairs(Pairs):
    """Keeps all rows of both sides, of which pairs are made when their window closes.

    Known as window join, as in Flink's SQL.
    """

    def __init__(self, left: Sequence[str], right: Mapping[str, str], how: How) -> None:
        super().__init__(left, right)
        self.how: How = how

    def needs(self, new: pl.DataFrame) -> pl.Series | None:
        """None is looked at yet."""
        return _no_group(new)

    def grow(self, before: pl.DataFrame, new: pl.DataFrame) -> Growth:  # noqa: ARG002
        """All rows are kept; nothing goes out yet."""
        return Growth(new, _no_group(new), self.results(new.clear()))

    def results(self, rows: pl.DataFrame) -> pl.DataFrame:
        """See :class:`towpath.operators.windowed_rows.Closing`."""
        return self._pairs(rows.filter(~pl.col(RIGHT)), rows.filter(RIGHT), self.how)


def _no_group(rows: pl.DataFrame) -> pl.Series:
    return rows.get_column(GROUP).clear()
