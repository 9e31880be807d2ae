"""Aggregates over all rows that a key has had, for :meth:`towpath.query.KeyedStream.aggregate`.

::

    from towpath.query import agg

    bids.key_by("auction").aggregate(bids=agg.count(), highest=agg.max("price"))

``where`` restricts an aggregate to the rows for which it is true. Nulls are passed over.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from towpath.operators.aggregates import Aggregate, Call, Function, Merge, Part
from towpath.query.expressions import Written, expression

__all__ = ["Aggregate", "count", "max", "mean", "min", "sum"]

Value = str | Written
"""A column by name, or an expression over one row."""


def count(*, where: Written | None = None) -> Aggregate:
    """Number of rows (Int64)."""
    call = _call("count", None, where)
    number = pl.len() if call.where is None else call.where.polars.sum()
    return _single(number.cast(pl.Int64), "sum", call)


def sum(value: Value, *, where: Written | None = None) -> Aggregate:  # noqa: A001 - the word of the field
    """Sum of the values; 0 if there are none. Integers of 64 bits wrap around."""
    call = _call("sum", value, where)
    return _single(_taken(call).sum(), "sum", call)


def min(value: Value, *, where: Written | None = None) -> Aggregate:  # noqa: A001 - the word of the field
    """Least of the values; null if there are none."""
    call = _call("min", value, where)
    return _single(_taken(call).min(), "min", call)


def max(value: Value, *, where: Written | None = None) -> Aggregate:  # noqa: A001 - the word of the field
    """Greatest of the values; null if there are none."""
    call = _call("max", value, where)
    return _single(_taken(call).max(), "max", call)


def mean(value: Value, *, where: Written | None = None) -> Aggregate:
    """Mean of the values (Float64); null if there are none."""
    call = _call("mean", value, where)
    taken = _taken(call)
    parts = (Part(taken.sum(), "sum"), Part(taken.count().cast(pl.Int64), "sum"))

    def finish(columns: Sequence[pl.Expr]) -> pl.Expr:
        total, number = columns
        return pl.when(number > 0).then(total / number)

    return Aggregate(parts, finish, _reads(call), call)


def _call(function: Function, value: Value | None, where: Written | None) -> Call:
    return Call(function, None if value is None else expression(value), None if where is None else expression(where))


def _single(value: pl.Expr, merge: Merge, call: Call) -> Aggregate:
    return Aggregate((Part(value, merge),), lambda columns: columns[0], _reads(call), call)


def _taken(call: Call) -> pl.Expr:
    """The values of the rows that count."""
    if call.value is None:
        raise TypeError(f"{call.function} has no values")
    return call.value.polars if call.where is None else call.value.polars.filter(call.where.polars)


def _reads(call: Call) -> tuple[pl.Expr, ...]:
    return tuple(each.polars for each in call.expressions)
