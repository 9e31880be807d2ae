"""The oracle over real topics."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from loadgen.cluster import Brokers
from loadgen.errors import OptionError
from loadgen.frames import read_records
from loadgen.oracle.verify import (
    Emit,
    Guarantee,
    VerifyResult,
    query_named,
    verify_outputs,
    verify_rows,
    verify_state,
)
from loadgen.topics import Offsets, earliest_offsets, end_offsets

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read_whole", "settled_end", "verify_files", "verify_topics"]

SETTLE_TIMEOUT_S = 12.0
"""For open transactions to end: their own time-out is 10 s, plus what the broker takes to abort them."""


def settled_end(bootstrap: Brokers, topic: str, timeout_s: float = SETTLE_TIMEOUT_S) -> Offsets:
    """End offsets up to which no transaction is open.

    The last stable offset may lag a commit that has already returned, so it is only trusted once it has
    reached the end of the log as an uncommitted reader sees it.

    Args:
        bootstrap: The cluster.
        topic: Name.
        timeout_s: How long to wait for open transactions; then the last stable offsets are the end.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        high = end_offsets(bootstrap, topic)
        stable = end_offsets(bootstrap, topic, committed=True)
        if all(stable[partition] >= offset for partition, offset in high.items()) or time.monotonic() > deadline:
            return stable
        time.sleep(0.1)


def read_whole(spark: SparkSession, bootstrap: Brokers, topic: str) -> DataFrame:
    """All committed records of a topic, as the Kafka source gives them."""
    start, end = earliest_offsets(bootstrap, topic), settled_end(bootstrap, topic)
    return read_records(spark, bootstrap, {topic: start}, {topic: end})


def verify_topics(
    spark: SparkSession,
    bootstrap: Brokers,
    query: str,
    input_topic: str,
    sink_topic: str,
    *,
    state: Path | None = None,
    emit: Emit = "batch",
    guarantee: Guarantee = "exactly_once",
) -> list[VerifyResult]:
    """Compares a sink topic, and a final state if given, with the expectation from the input topic.

    Args:
        spark: Session with the connector.
        bootstrap: The cluster.
        query: One of `QUERIES`.
        input_topic: The query's input, from its beginning.
        sink_topic: The query's output, from its beginning.
        state: Parquet file or directory, columns as `verify_state` says.
        emit: See `verify_outputs`.
        guarantee: See `verify_outputs`.

    Returns:
        The result for the outputs, then the one for the state if it was given.

    Raises:
        OptionError: The query is unknown, or keeps no state and one is given.
        TopicError: A topic does not exist.
    """
    events = read_whole(spark, bootstrap, input_topic)
    sink = read_whole(spark, bootstrap, sink_topic)
    results = [verify_outputs(spark, query, events, sink, emit=emit, guarantee=guarantee)]
    if state is not None:
        results.append(verify_state(spark, query, events, spark.read.parquet(str(state))))
    return results


def verify_files(
    spark: SparkSession, bootstrap: Brokers, query: str, input_topic: str, directory: Path
) -> list[VerifyResult]:
    """Compares Parquet files with the expectation from the input topic.

    Args:
        spark: Session with the connector.
        bootstrap: The cluster.
        query: One of `QUERIES`.
        input_topic: The query's input, from its beginning.
        directory: The query's output; its directories `column=value` are columns, and files that begin with a dot or
            an underscore are none of it.

    Returns:
        The result, in a list as of `verify_topics`.

    Raises:
        OptionError: The query is unknown, or there is no such directory.
        TopicError: The topic does not exist.
    """
    if not directory.is_dir():
        raise OptionError(f"there is no directory {directory}")
    rows = spark.read.schema(query_named(query).output_schema).parquet(str(directory))
    return [verify_rows(spark, query, read_whole(spark, bootstrap, input_topic), rows)]
