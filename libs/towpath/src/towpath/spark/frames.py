"""Spark frames on their way through a query: the user's columns, and reserved ones beside them.

==============  ===================================  ==================================================================
``__order``     struct<ms, a, b: bigint>, batch      where a row stands among those of its key: for a record its time,
                                                     partition and offset; for a window's result its end and place
``__sched_ms``  bigint                               intended emit time, up to the first keyed step
``__time``      timestamp, streaming                 event time with Spark's watermark
==============  ===================================  ==================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import narwhals as nw
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from towpath.query.check import Schema
from towpath.query.expressions import Expression
from towpath.query.plan import RESERVED_PREFIX, SCHED
from towpath.spark.types import quoted, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ORDER = "__order"
TIME = "__time"
RESERVED = (ORDER, SCHED, TIME)
_TEMPORARY = "__e"


def column(name: str) -> Column:
    """A column by its name, whatever characters it has."""
    return F.col(quoted(name))


def columns(names: Iterable[str]) -> list[Column]:
    """Columns by their names."""
    return [column(name) for name in names]


def reserved(frame: DataFrame, without: Sequence[str] = ()) -> list[Column]:
    """The reserved columns of a frame."""
    return [column(name) for name in RESERVED if name in frame.columns and name not in without]


def order(ms: Column, first: Column | None = None, second: Column | None = None) -> Column:
    """A value of ``__order``."""
    parts = {"ms": ms, "a": first, "b": second}
    zero = F.lit(0)
    return F.struct(
        *((zero if part is None else part).cast("bigint").alias(name) for name, part in parts.items())
    ).alias(ORDER)


def shaped(frame: DataFrame, schema: Schema) -> DataFrame:
    """The columns of a place of the query, as far as they were read, in its order and types; and the reserved ones."""
    there = set(frame.columns)
    wanted = [name for name in schema if name in there and not name.startswith(RESERVED_PREFIX)]
    typed = [column(name).cast(spark_type(schema[name])).alias(name) for name in wanted]
    return frame.select(*typed, *reserved(frame))


def evaluated(frame: DataFrame, expressions: Sequence[Expression]) -> tuple[DataFrame, list[Column]]:
    """Expressions as columns of a frame.

    Narwhals works on frames, so that its expressions become temporary columns first; :func:`shaped` drops them.

    Returns:
        The frame with these columns, and a column for each expression, without its name.
    """
    temporary = {
        f"{_TEMPORARY}{number}": each.spark
        for number, each in enumerate(expressions)
        if isinstance(each.spark, nw.Expr)
    }
    if temporary:
        named = [form.alias(name) for name, form in temporary.items()]
        frame = nw.from_native(frame).with_columns(*named).to_native()
    return frame, [
        column(f"{_TEMPORARY}{number}") if f"{_TEMPORARY}{number}" in temporary else _native(each)
        for number, each in enumerate(expressions)
    ]


def _native(expression: Expression) -> Column:
    match expression.spark:
        case None if expression.column is not None:
            return column(expression.column)
        case str() as text:
            return F.expr(text)
        case factory if callable(factory):
            made: Column = factory()
            return made
        case _:
            raise TypeError(f"{expression} has no form on Spark")


def present(frame: DataFrame, names: Iterable[str]) -> DataFrame:
    """The rows that have a value in all of these columns."""
    return frame.where(" AND ".join(f"{quoted(name)} IS NOT NULL" for name in names))
