"""Steps on the rows of each key, on Spark frames: over a whole input, or as running results of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812

from towpath.operators.aggregates import Aggregate, Aggregates, Call
from towpath.operators.highest import Highest
from towpath.operators.keyed_rows import Keeping
from towpath.operators.ranked import Ranked
from towpath.query.check import Schema
from towpath.query.keyed_steps import CountStep, ProcessStep
from towpath.query.plan import SCHED
from towpath.spark.frames import ORDER, column, columns, evaluated, reserved
from towpath.spark.python_code import GroupFunction
from towpath.spark.types import ddl, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec

ROW, ROWS = "__row", "__rows"
"""A row as one struct, and an array of them, on the way out of an aggregate."""

_PLACE = "__place"
_ORDER_TYPE = "struct<ms:bigint,a:bigint,b:bigint>"


def counted(frame: DataFrame, step: CountStep) -> DataFrame:
    """Rows of each key, or their running number."""
    if step.each:
        number = F.row_number().over(_by(step.keys).orderBy(column(ORDER)))
        return frame.select(*columns(step.keys), number.alias(step.into), *reserved(frame, [SCHED]))
    return frame.groupBy(*columns(step.keys)).agg(F.count(F.lit(1)).alias(step.into), *newest(frame))


def reduced(frame: DataFrame, keys: Sequence[str], reduction: Keeping, schema: Schema) -> DataFrame:
    """What a reduction gives for all rows of each key; ``schema``: columns that come out."""
    match reduction:
        case Aggregates():
            wide, values = aggregates(frame, reduction.columns)
            found = wide.groupBy(*columns(keys)).agg(*values, *newest(frame))
            return _without_previous(found, reduction, schema)
        case Ranked():
            return _ranked(frame.drop(SCHED), keys, reduction)
        case Highest(by=by):
            most = F.max(column(by)).over(_by(keys))
            return frame.withColumn(_PLACE, most).where(column(by) == column(_PLACE)).drop(_PLACE, SCHED)
        case _:
            raise TypeError(f"{type(reduction).__name__} has no form on Spark")


def aggregates(frame: DataFrame, asked: dict[str, Aggregate]) -> tuple[DataFrame, list[Column]]:
    """The frame with what the aggregates read, and these, named."""
    calls = {name: aggregate.call for name, aggregate in asked.items() if aggregate.call is not None}
    wide, read = evaluated(frame, [each for call in calls.values() for each in call.expressions])
    rest = iter(read)
    return wide, [_aggregate(call, [next(rest) for _ in call.expressions]).alias(name) for name, call in calls.items()]


def first_rows(reduction: Ranked, schema: Schema) -> Column:
    """The first rows of an order as an array of structs: an aggregate, and so also for streams.

    Args:
        reduction: the order; columns of it that ascend are numbers.
        schema: of the rows.
    """
    order = [
        column(name) if descending else _falling(name, schema)
        for name, descending in zip(reduction.by, reduction.descending, strict=True)
    ]
    return F.max_by(F.struct(*columns(reduction.columns)), F.struct(*order), reduction.places).alias(ROWS)


def placed(frame: DataFrame, rank: str | None) -> DataFrame:
    """A row for each element of such an array, with its place if that has a name."""
    others = columns(name for name in frame.columns if name != ROWS)
    each = frame.select(*others, F.posexplode(column(ROWS)).alias(_PLACE, ROW))
    places = [] if rank is None else [(column(_PLACE) + 1).alias(rank)]
    return each.select(*others, f"{ROW}.*", *places)


def processed(frame: DataFrame, step: ProcessStep) -> DataFrame:
    """What a Python function gives for each row of a key, in the rows' order, with a state of its own."""
    result = f"{ddl(step.schema)}, {ORDER} {_ORDER_TYPE}"
    names = [name for name in frame.columns if not name.startswith("__") or name == ORDER]
    grouped = frame.select(*columns(names)).groupBy(*columns(step.keys))
    function = GroupFunction(step.function, dict(step.schema), ORDER)
    # Spark counts the parameters of what it calls, and takes an object for one that wants the key as well.
    return grouped.applyInArrow(lambda table: function(table), result)


def newest(frame: DataFrame) -> list[Column]:
    """The order of a result: that of the last row behind it."""
    return [F.max(ORDER).alias(ORDER)] if ORDER in frame.columns else []


def _by(keys: Sequence[str]) -> WindowSpec:
    return Window.partitionBy(*columns(keys))


def _ranked(frame: DataFrame, keys: Sequence[str], reduction: Ranked) -> DataFrame:
    ordered = [
        column(name).desc_nulls_last() if descending else column(name).asc_nulls_last()
        for name, descending in zip(reduction.by, reduction.descending, strict=True)
    ]
    arrived = column(ORDER).desc() if reduction.ties == "last" else column(ORDER).asc()
    place = F.row_number().over(_by(keys).orderBy(*ordered, arrived))
    found = frame.withColumn(_PLACE, place).where(column(_PLACE) <= reduction.places)
    return found.withColumnRenamed(_PLACE, reduction.rank) if reduction.rank else found.drop(_PLACE)


def _falling(name: str, schema: Schema) -> Column:
    """Numbers in the opposite order, nulls first in both: of integers the complement, which never overflows."""
    dtype = schema[name]
    signed = dtype.is_integer() and dtype != pl.UInt64
    return F.bitwise_not(column(name)) if signed else -column(name)


def _aggregate(call: Call, read: list[Column]) -> Column:
    """An aggregate over what it reads: its values, and whether a row counts."""
    if call.value is None:
        return F.count(F.lit(1)) if call.where is None else F.count_if(read[0])
    value = read[0] if call.where is None else F.when(read[1], read[0])
    match call.function:
        case "sum":
            return F.coalesce(F.sum(value), F.lit(0))
        case "min":
            return F.min(value)
        case "max":
            return F.max(value)
        case _:
            return F.avg(value)


def _without_previous(found: DataFrame, reduction: Aggregates, schema: Schema) -> DataFrame:
    """With the results before, which no key has: the whole input is one batch."""
    if reduction.previous is None:
        return found
    names = [f"{name}{reduction.previous}" for name in reduction.columns]
    return found.select("*", *(F.lit(None).cast(spark_type(schema[name])).alias(name) for name in names))
