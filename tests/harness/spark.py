"""A Spark session for tests: one JVM for the whole run."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from loadgen.errors import JarsError, JavaError
from loadgen.java import require_java
from loadgen.session import SessionSettings, start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["kafka_rows", "running_session"]


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
    session.stop()


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
