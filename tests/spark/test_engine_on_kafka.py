"""Queries on Spark through a real broker: as streams, and by the command line as a batch job."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import pytest

from loadgen.oracle import verify_outputs
from nexmark import GeneratorConfig, Profile, generate_json
from queries.nexmark_schema import EVENT_TIME, events
from statemgr.kafka.confluent import ConfluentKafka
from tests.harness.load import create_topic
from tests.harness.spark import read_topic
from towpath.broker import LocalBroker
from towpath.query import Query, tumbling
from towpath.query.loading import find_query
from towpath.spark.judge import Mode, graph_of, require

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.slow]

EVENTS, RATE = 10_000, 200
"""50 s of event time: sessions with a gap of 10 s have ended in it."""

PARTITIONS = 2
LAG_MS = 4_000
FLUSH_S = 60.0
COMMAND_S = 240.0
"""Fifteen seconds on a quiet machine, most of them for the start of a JVM."""


@pytest.fixture(scope="module")
def topic(broker: LocalBroker) -> str:
    """Events in a real topic, in turns to its partitions."""
    name = "engine-events"
    create_topic(broker.bootstrap, name, PARTITIONS)
    config = GeneratorConfig(seed=42, profile=Profile.constant(RATE))
    lines = generate_json(config, 0, EVENTS, sched_ms=np.arange(EVENTS)).to_pylist()
    kafka = ConfluentKafka(broker.bootstrap)
    with contextlib.closing(kafka.producer(transactional_id=None, name="events")) as producer:
        for number, line in enumerate(lines):
            producer.produce(name, number % PARTITIONS, None, line)
        producer.flush(FLUSH_S)
    return name


def of_nexmark(name: str, topic: str) -> Query:
    query = find_query(f"queries.{name}", {"topic": topic})
    assert isinstance(query, Query)
    return query


def new_users(topic: str) -> Query:
    """Who registered, with the auctions that they opened in the same 10 seconds."""
    query = Query("new-users")
    everything = events(query, topic)
    persons = everything.filter(nw.col("type") == "person").select("id", "name", EVENT_TIME)
    auctions = everything.filter(nw.col("type") == "auction").select("seller", EVENT_TIME, auction=nw.col("id"))
    opened = auctions.key_by("seller").window(tumbling(10_000), on=EVENT_TIME)
    registered = persons.key_by("id").window(tumbling(10_000), on=EVENT_TIME)
    registered.join(opened, columns=["auction"], how="left").sink("new-users")
    return query


def streamed(spark: SparkSession, broker: LocalBroker, query: Query, tmp_path: Path) -> list[dict[str, Any]]:
    """Rows of a query that streams to the end of the topic."""
    from towpath.spark.run import Job, run_streaming

    graph = graph_of(query)
    require(graph, Mode.STREAMING, query.app)
    rows: list[dict[str, Any]] = []
    job = Job(query.plan(), graph, broker.bootstrap, take=lambda _, row: rows.append(json.loads(row)))
    run_streaming(spark, job, tmp_path, until_end=True, stopping=threading.Event().wait)
    return rows


def in_batch(spark: SparkSession, broker: LocalBroker, query: Query) -> list[dict[str, Any]]:
    """Rows of the same query as a batch job."""
    from towpath.spark.run import Job, run_batch

    rows: list[dict[str, Any]] = []
    run_batch(spark, Job(query.plan(), query.graph, broker.bootstrap, take=lambda _, row: rows.append(json.loads(row))))
    return rows


def multiset(rows: list[dict[str, Any]]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


@pytest.mark.parametrize("name", ["q2", "q3"])
def test_rows_and_joins_stream(name: str, spark: SparkSession, broker: LocalBroker, topic: str, tmp_path: Path) -> None:
    query = of_nexmark(name, topic)
    expected = in_batch(spark, broker, query)
    assert expected
    assert multiset(streamed(spark, broker, query, tmp_path)) == multiset(expected)


def test_running_results_stream(spark: SparkSession, broker: LocalBroker, topic: str, tmp_path: Path) -> None:
    keys = {"key_count": ("auction",), "q19": ("auction", "rank_number")}
    for name, key in keys.items():
        query = of_nexmark(name, topic)
        streamed_rows = streamed(spark, broker, query, tmp_path / name)
        last = {tuple(row[column] for column in key): row for row in streamed_rows}
        expected = in_batch(spark, broker, query)
        assert multiset(list(last.values())) == multiset(expected)


@pytest.mark.parametrize("name", ["q5", "q11"])
def test_windows_stream_when_they_close(
    name: str, spark: SparkSession, broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    end = {"q5": "window_end", "q11": "endtime"}[name]
    query = of_nexmark(name, topic)
    closed = [row for row in in_batch(spark, broker, query) if row[end] <= reached(spark, broker, topic)]
    assert closed
    assert multiset(streamed(spark, broker, query, tmp_path)) == multiset(closed)


def test_joins_of_windows_stream(spark: SparkSession, broker: LocalBroker, topic: str, tmp_path: Path) -> None:
    """A pair comes out as soon as it is there, a row without a partner when its window is over."""
    query = new_users(topic)
    expected = in_batch(spark, broker, query)
    over = reached(spark, broker, topic)
    out = [row for row in expected if row["auction"] is not None or row["window_end"] <= over]
    assert {row["auction"] is None for row in out} == {True, False}
    assert multiset(streamed(spark, broker, query, tmp_path)) == multiset(out)


def reached(spark: SparkSession, broker: LocalBroker, topic: str) -> int:
    """The watermark at the end of the topic."""
    times = [json.loads(row.value)["date_time"] for row in read_topic(spark, broker.bootstrap, topic).collect()]
    return max(times) - LAG_MS


def test_the_command_line_runs_a_batch_job(spark: SparkSession, broker: LocalBroker, topic: str) -> None:
    arguments = ("run", "queries.q17", "--engine", "spark", "--batch", "--master", "local[2]")
    more = ("--spark", "spark.sql.shuffle.partitions=1", "--bootstrap", broker.bootstrap, "--set", f"topic={topic}")
    done = subprocess.run(
        [sys.executable, "-m", "towpath.cli", *arguments, *more],
        capture_output=True,
        text=True,
        timeout=COMMAND_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    compared = verify_outputs(
        spark, "q17", read_topic(spark, broker.bootstrap, topic), read_topic(spark, broker.bootstrap, "q17")
    )
    assert compared.ok, compared.to_dict()
    assert compared.actual > 0
