"""Aggregates over all rows that a key has had, for :meth:`towpath.query.KeyedStream.aggregate`.

::

    from towpath.query import agg

    bids.key_by("auction").aggregate(bids=agg.count(), highest=agg.max("price"))

``where`` restricts an aggregate to the rows for which it is true. Nulls are passed over.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from towpath.operators.aggregates import Aggregate, Merge, Part

__all__ = ["Aggregate", "count", "max", "mean", "min", "sum"]

Value = str | pl.Expr
"""A column by name, or an expression over one row."""


def count(*, where: pl.Expr | None = None) -> Aggregate:
    """Number of rows (Int64)."""
    return _single(_number(where), "sum", () if where is None else (where,))


def sum(value: Value, *, where: pl.Expr | None = None) -> Aggregate:  # noqa: A001 - the word of the field
    """Sum of the values; 0 if there are none. Integers of 64 bits wrap around."""
    taken = _taken(value, where)
    return _single(taken.sum(), "sum", _reads(value, where))


def min(value: Value, *, where: pl.Expr | None = None) -> Aggregate:  # noqa: A001 - the word of the field
    """Least of the values; null if there are none."""
    return _single(_taken(value, where).min(), "min", _reads(value, where))


def max(value: Value, *, where: pl.Expr | None = None) -> Aggregate:  # noqa: A001 - the word of the field
    """Greatest of the values; null if there are none."""
    return _single(_taken(value, where).max(), "max", _reads(value, where))


def mean(value: Value, *, where: pl.Expr | None = None) -> Aggregate:
    """Mean of the values (Float64); null if there are none."""
    taken = _taken(value, where)
    parts = (Part(taken.sum(), "sum"), Part(taken.count().cast(pl.Int64), "sum"))

    def finish(columns: Sequence[pl.Expr]) -> pl.Expr:
        total, number = columns
        return pl.when(number > 0).then(total / number)

    return Aggregate(parts, finish, _reads(value, where))


def _single(value: pl.Expr, merge: Merge, reads: tuple[pl.Expr, ...]) -> Aggregate:
    return Aggregate((Part(value, merge),), lambda columns: columns[0], reads)


def _number(where: pl.Expr | None) -> pl.Expr:
    return (pl.len() if where is None else where.sum()).cast(pl.Int64)


def _taken(value: Value, where: pl.Expr | None) -> pl.Expr:
    expression = _expression(value)
    return expression if where is None else expression.filter(where)


def _reads(value: Value, where: pl.Expr | None) -> tuple[pl.Expr, ...]:
    return (_expression(value),) if where is None else (_expression(value), where)


def _expression(value: Value) -> pl.Expr:
    return pl.col(value) if isinstance(value, str) else value
