"""Aggregates that can be merged: what rows of a key give together, from parts that are kept in state.

An aggregate is made of *parts*, each the sum, least or greatest of something over rows. Parts of two sets of rows merge
to those of both, so that a batch is aggregated by itself, in columns, and then merged with what its keys had before.
Known as decomposable aggregate functions: Jesus, Baquero and Almeida, "A Survey of Distributed Data Aggregation
Algorithms", 2015, section 2.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from towpath.operators.keyed_rows import GROUP

if TYPE_CHECKING:
    from towpath.query.expressions import Expression

Merge = Literal["sum", "min", "max"]
Function = Literal["count", "sum", "min", "max", "mean"]


@dataclass(frozen=True)
class Part:
    """What is kept of an aggregate.

    Attributes:
        value: its value over a group of rows.
        merge: what makes of two values that of both groups.
    """

    value: pl.Expr
    merge: Merge


@dataclass(frozen=True)
class Call:
    """How an aggregate was asked for, for engines that have aggregates of their own.

    Attributes:
        function: its name.
        value: over what; None: rows are counted.
        where: for which rows it is true, those count; None: all.
    """

    function: Function
    value: Expression | None
    where: Expression | None

    @property
    def expressions(self) -> tuple[Expression, ...]:
        """Value and condition, as far as there are any."""
        return tuple(each for each in (self.value, self.where) if each is not None)


@dataclass(frozen=True)
class Aggregate:
    """A column over all rows that a key has had; made by the functions of :mod:`towpath.query.agg`.

    Attributes:
        parts: what is kept.
        finish: the columns of the parts → the aggregate.
        reads: what is taken of each row, for checks.
        call: how it was asked for; None: in a way that only services know.
    """

    parts: tuple[Part, ...]
    finish: Callable[[Sequence[pl.Expr]], pl.Expr]
    reads: tuple[pl.Expr, ...]
    call: Call | None = None


class Aggregates:
    """One row per key, of the parts of all aggregates; see :class:`towpath.operators.keyed_rows.Reduction`.

    Attributes:
        columns: column → aggregate.
        previous: see below.
        finished: the aggregates, as expressions over the columns of the parts.
    """

    def __init__(self, columns: Mapping[str, Aggregate], previous: str | None = None) -> None:
        """``previous``: what names of columns get added for the values before the batch; None: these are left out."""
        self.columns = dict(columns)
        self.previous = previous
        self._parts = {
            f"{name}.{number}": part
            for name, aggregate in columns.items()
            for number, part in enumerate(aggregate.parts)
        }
        self.finished = [
            aggregate.finish([pl.col(f"{name}.{number}") for number in range(len(aggregate.parts))]).alias(name)
            for name, aggregate in columns.items()
        ]

    def rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Parts of each key's rows in a batch."""
        values = [part.value.alias(name) for name, part in self._parts.items()]
        return frame.group_by(GROUP, maintain_order=True).agg(values)

    def step(self, before: pl.DataFrame, new: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Parts of each key over all of its rows; its aggregates go out, and those that it had before."""
        after = pl.concat([before, new]).group_by(GROUP, maintain_order=True).agg(self.merging(new.schema))
        found = after.select(GROUP, *self.finished)
        if self.previous is None:
            return after, found
        known = before.select(GROUP, *(column.name.suffix(self.previous) for column in self.finished))
        return after, found.join(known, on=GROUP, how="left", maintain_order="left")

    def merging(self, schema: Mapping[str, Any]) -> list[pl.Expr]:
        """What makes the parts of a group of rows that have parts of this schema."""
        return [_merged(name, part.merge, schema[name]) for name, part in self._parts.items()]


def _merged(name: str, merge: Merge, dtype: Any) -> pl.Expr:
    column = pl.col(name)
    match merge:
        case "sum":
            return column.sum().cast(dtype)
        case "min":
            return column.min()
        case "max":
            return column.max()
