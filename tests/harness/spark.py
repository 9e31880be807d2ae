"""A Spark session for tests: one JVM for the whole run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from loadgen.errors import JarsError, JavaError
from loadgen.frames import read_records
from loadgen.java import require_java
from loadgen.oracle import settled_end
from loadgen.session import SessionSettings, start_session, stop_session
from loadgen.topics import earliest_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["kafka_rows", "read_topic", "running_session"]


def running_session(work_dir: Path) -> Iterator[SparkSession]:
    """A session for the run; without Java the test is skipped, under CI it fails."""
    try:
        require_java()
        session = start_session(_settings(work_dir))
    except (JavaError, JarsError) as error:
        if os.environ.get("CI"):
            pytest.fail(str(error), pytrace=False)
        pytest.skip(str(error))
    yield session
    stop_session(session)


def _settings(work_dir: Path) -> SessionSettings:
    """For many small jobs: the time goes into compiling, so the JVM's second compiler stays off."""
    return SessionSettings(
        app="towpath-tests",
        work_dir=work_dir,
        shuffle_partitions=1,
        jvm_options=("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        extra={"spark.sql.adaptive.enabled": "false"},
    )


def kafka_rows(spark: SparkSession, rows: Sequence[tuple[Any, str | None, int, int]]) -> DataFrame:
    """Rows (key, value, partition, offset) as Spark's Kafka source would give them."""
    keys, values, partitions, offsets = zip(*rows, strict=True) if rows else ((), (), (), ())
    columns = {
        "key": pa.array([None if key is None else str(key).encode() for key in keys], pa.binary()),
        "value": pa.array([None if value is None else value.encode() for value in values], pa.binary()),
        "partition": pa.array(partitions, pa.int32()),
        "offset": pa.array(offsets, pa.int64()),
    }
    return spark.createDataFrame(pa.table(columns))


def read_topic(spark: SparkSession, bootstrap: str, topic: str) -> DataFrame:
    """All committed records of a topic: key, value, partition, offset, append_ms, sched_ms."""
    records = read_records(
        spark, bootstrap, {topic: earliest_offsets(bootstrap, topic)}, {topic: settled_end(bootstrap, topic)}
    )
    return records.selectExpr(
        "key", "value", "partition", "offset", "UNIX_MILLIS(timestamp) AS append_ms",
        "BIGINT(GET_JSON_OBJECT(CAST(value AS STRING), '$.sched_ms')) AS sched_ms",
    )  # fmt: skip
