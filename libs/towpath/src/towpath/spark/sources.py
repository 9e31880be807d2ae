"""Records of Kafka → the rows that a query's sources have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812

from towpath.query.plan import SCHED, InputPlan
from towpath.spark.frames import ORDER, TIME, column, order
from towpath.spark.types import quoted, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_VALUE = "__value"
_BROKEN = "__broken"


def decoded(records: DataFrame, source: InputPlan, *, streams: bool) -> DataFrame:
    """Rows with the columns that the query reads, and reserved ones; see :mod:`towpath.spark.frames`.

    Records that are no JSON objects with fields of these types are left out.

    Args:
        records: columns ``key``, ``value`` (Binary), ``partition``, ``offset`` and ``timestamp``, as Spark's Kafka
            source has them.
        source: what the query reads.
        streams: whether rows get a watermark; otherwise they get an order.
    """
    fields = {name: spark_type(dtype) for name, dtype in source.schema.items()}
    more = {} if source.emit_time is None else {source.emit_time: "bigint"}
    ddl = ", ".join(f"{quoted(name)} {kind}" for name, kind in (fields | more | {_BROKEN: "string"}).items())
    how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN}
    value = F.from_json(F.col("value").cast("string"), ddl, how).alias(_VALUE)
    parsed = records.select(value, "key", "partition", "offset", "timestamp")
    good = parsed.where(f"{_VALUE} IS NOT NULL AND {_VALUE}.{_BROKEN} IS NULL")
    rows = good.select(*(_field(name).alias(name) for name in fields), *_of_record(source), *_reserved(source, streams))
    if streams and source.event_time is not None:
        time = F.timestamp_millis(column(source.event_time.column))
        rows = rows.withColumn(TIME, time).withWatermark(TIME, f"{source.event_time.lag_ms} milliseconds")
    return rows


def _of_record(source: InputPlan) -> list[Column]:
    found = [] if source.key_column is None else [F.col("key").cast("string").alias(source.key_column)]
    if source.timestamp_column is not None:
        found.append(F.unix_millis("timestamp").alias(source.timestamp_column))
    return found


def _reserved(source: InputPlan, streams: bool) -> list[Column]:
    found = [] if source.emit_time is None else [_field(source.emit_time).alias(SCHED)]
    if not streams:
        found.append(order(F.unix_millis("timestamp"), F.col("partition"), F.col("offset")).alias(ORDER))
    return found


def _field(name: str) -> Column:
    return F.col(f"{_VALUE}.{quoted(name)}")
