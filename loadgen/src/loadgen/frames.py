"""Spark frames over Kafka topics: committed records only, offsets stated, loss visible."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from loadgen.cluster import Brokers, source_options
from loadgen.topics import Offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["offsets_json", "read_records", "reader_options", "stamped", "stream_records"]

STAMP_SCHEMA = "sched_ms BIGINT, sched_newest_ms BIGINT, events BIGINT"
"""What the jobs read of a record's JSON: oldest and newest intended time, and number of inputs, of an output."""


def offsets_json(offsets: Mapping[str, Offsets]) -> str:
    """Topic → partition → offset in the form that Spark's Kafka source takes."""
    return json.dumps({topic: {str(p): o for p, o in sorted(at.items())} for topic, at in sorted(offsets.items())})


def reader_options(bootstrap: Brokers, *, fail_on_data_loss: bool = True) -> dict[str, str]:
    """Options of every Kafka reader here.

    Args:
        bootstrap: The cluster.
        fail_on_data_loss: End with an error when offsets are gone (retention, deletion), rather than go on.
    """
    return {
        **source_options(bootstrap),
        # Spark's default is read_uncommitted, which also returns the records of aborted transactions.
        "kafka.isolation.level": "read_committed",
        "failOnDataLoss": str(fail_on_data_loss).lower(),
    }


def read_records(
    spark: SparkSession,
    bootstrap: Brokers,
    start: Mapping[str, Offsets],
    end: Mapping[str, Offsets],
    *,
    fail_on_data_loss: bool = True,
) -> DataFrame:
    """The committed records between offsets, as Spark's Kafka source gives them.

    Args:
        spark: Session with the connector.
        bootstrap: The cluster.
        start: Topic → partition → first offset.
        end: The same, first offset beyond.
        fail_on_data_loss: See `reader_options`.
    """
    reader = spark.read.format("kafka").options(**reader_options(bootstrap, fail_on_data_loss=fail_on_data_loss))
    assigned = json.dumps({topic: sorted(at) for topic, at in start.items()})
    return reader.options(assign=assigned, startingOffsets=offsets_json(start), endingOffsets=offsets_json(end)).load()


def stream_records(
    spark: SparkSession, bootstrap: Brokers, start: Mapping[str, Offsets], *, fail_on_data_loss: bool = True
) -> DataFrame:
    """The committed records from given offsets on, as a stream; arguments as for `read_records`."""
    reader = spark.readStream.format("kafka").options(**reader_options(bootstrap, fail_on_data_loss=fail_on_data_loss))
    assigned = json.dumps({topic: sorted(at) for topic, at in start.items()})
    return reader.options(assign=assigned, startingOffsets=offsets_json(start)).load()


def stamped(records: DataFrame) -> DataFrame:
    """Reads append and intended times out of Kafka records.

    Args:
        records: What the Kafka source gives.

    Returns:
        Columns topic, partition, offset, append_ms, sched_ms, sched_newest_ms (both null if the record carries
        none; the newest is the oldest where only one is given), events (1 where not given).
    """
    from pyspark.sql import functions as f

    parsed = records.select(
        "topic",
        "partition",
        "offset",
        f.unix_millis("timestamp").alias("append_ms"),
        f.from_json(f.col("value").cast("string"), STAMP_SCHEMA).alias("stamp"),
    )
    return parsed.select(
        "topic",
        "partition",
        "offset",
        "append_ms",
        "stamp.sched_ms",
        f.coalesce("stamp.sched_newest_ms", "stamp.sched_ms").alias("sched_newest_ms"),
        f.coalesce("stamp.events", f.lit(1)).alias("events"),
    )
