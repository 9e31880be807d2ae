"""The latency job over real transactional topics: nothing lost, nothing uncommitted, nothing flattered."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from loadgen.errors import JobError
from loadgen.latency import LatencyResult, LatencySettings, follow, load_frames, measure_batch
from loadgen.receiver import ReceiverProcess
from loadgen.topics import end_offsets, ensure_topic
from tests.harness.spark import read_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from towpath.broker import LocalBroker

Names = Callable[[str], str]
PARTITIONS = 2


@pytest.fixture
def topic(broker: LocalBroker, unique_name: Names) -> str:
    name = unique_name("sink")
    ensure_topic(broker.bootstrap, name, PARTITIONS)
    return name


def now_ms() -> int:
    return round(time.time() * 1000)


class Transactions:
    """A producer of outputs in transactions."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._topic = topic
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "transactional.id": f"writer-{topic}", "linger.ms": 0}
        )
        self._producer.init_transactions(10)

    def write(self, count: int, *, age_ms: int = 0, commit: bool = True, hold_s: float = 0.0, **fields: Any) -> None:
        self._producer.begin_transaction()
        for i in range(count):
            value = {"n": i, "sched_ms": now_ms() - age_ms, **fields}
            self._producer.produce(self._topic, json.dumps(value).encode(), partition=i % PARTITIONS)
        self._producer.flush(10)
        time.sleep(hold_s)
        if commit:
            self._producer.commit_transaction(10)
        else:
            self._producer.abort_transaction(10)


def settings(broker: LocalBroker, topic: str, directory: Path, **more: Any) -> LatencySettings:
    given: dict[str, Any] = {"trigger_s": 0.5, "check_clocks": False} | more
    return LatencySettings(broker.bootstrap, (topic,), directory, **given)


def total(result: LatencyResult, kind: str) -> Any:
    totals = result.frames.totals
    return totals[totals["kind"] == kind].iloc[0]


def test_rows_are_the_committed_records_and_visible_latency_includes_the_commit(
    spark: SparkSession, broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    writer = Transactions(broker.bootstrap, topic)
    with ReceiverProcess(broker.bootstrap, {topic: end_offsets(broker.bootstrap, topic)}, tmp_path / "receipts"):
        writer.write(30, events=4, sched_newest_ms=now_ms())
        writer.write(50, commit=False)
        writer.write(20, hold_s=0.7)
        writer.write(10, age_ms=5_000)
        time.sleep(0.5)
    result = measure_batch(spark, settings(broker, topic, tmp_path))

    assert result.frames.records == result.frames.received == {topic: 60}
    append, visible = total(result, "append"), total(result, "visible")
    assert (append["rows"], visible["rows"]) == (60, 60)
    assert append["events"] == 30 * 4 + 30
    assert 5_000 <= append["max_ms"] < 7_000
    assert visible["p50_ms"] >= append["p50_ms"]
    held = result.frames.windows.query("kind == 'visible'")["p95_ms"].max()
    assert held >= 700
    # The receiver alone knows of the wait for the commit: append time is blind to it.
    assert append["p50_ms"] < 500
    committed = read_topic(spark, broker.bootstrap, topic)
    assert committed.count() == 60
    assert committed.selectExpr("MAX(append_ms - sched_ms)").first()[0] == append["max_ms"]  # type: ignore[index]


def test_following_equals_measuring_afterwards_and_a_restart_goes_on_exactly(
    spark: SparkSession, broker: LocalBroker, topic: str, unique_name: Names, tmp_path: Path
) -> None:
    """With late rows, an aborted transaction, a crash inside a micro-batch, and records written in between."""
    writer = Transactions(broker.bootstrap, topic)
    figures = unique_name("figures")
    ensure_topic(broker.bootstrap, figures, 1)
    ours = settings(broker, topic, tmp_path / "follow", output_topic=figures)
    writer.write(95)
    writer.write(5, age_ms=60_000)

    def crash(_: pd.DataFrame) -> None:
        raise OSError("disk full")

    began = time.monotonic()
    with pytest.raises(JobError, match="the latency job failed"):
        follow(spark, ours, crash, duration_s=20)
    assert time.monotonic() - began < 30

    writer.write(40, commit=False)
    writer.write(60)
    seen: list[int] = []
    result = follow(spark, ours, lambda windows: seen.append(len(windows)), idle_s=1.0)
    assert seen
    assert result.frames.records == {topic: 160}
    afterwards = measure_batch(spark, settings(broker, topic, tmp_path / "batch"))
    pd.testing.assert_frame_equal(
        result.frames.windows.query("kind != 'visible'").reset_index(drop=True),
        afterwards.frames.windows.query("kind != 'visible'").reset_index(drop=True),
    )
    assert total(result, "append")["max_ms"] >= 60_000
    stored = load_frames(tmp_path / "follow")
    pd.testing.assert_frame_equal(stored.windows, result.frames.windows)
    assert json.loads((tmp_path / "follow" / "summary.json").read_text())["records"] == {topic: 160}
    assert (tmp_path / "follow" / "report.html").is_file()

    sent = read_topic(spark, broker.bootstrap, figures).selectExpr("CAST(value AS STRING) AS v").collect()
    newest = {(r["kind"], r["second"]): r["rows"] for r in (json.loads(row["v"]) for row in sent)}
    assert sum(rows for (kind, _), rows in newest.items() if kind == "append") == 160


def test_the_loads_own_delay_stands_beside_the_latency(
    spark: SparkSession, broker: LocalBroker, topic: str, unique_name: Names, tmp_path: Path
) -> None:
    source = unique_name("input")
    ensure_topic(broker.bootstrap, source, PARTITIONS)
    Transactions(broker.bootstrap, source).write(25, age_ms=40)
    Transactions(broker.bootstrap, topic).write(10, age_ms=200)
    result = measure_batch(spark, settings(broker, topic, tmp_path, input_topic=source, visible=False))
    assert (total(result, "load")["rows"], total(result, "append")["rows"]) == (25, 10)
    assert 40 <= total(result, "load")["p50_ms"] < 200 <= total(result, "append")["p50_ms"]


@contextmanager
def session_time_zone(spark: SparkSession, zone: str) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        yield
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(before))


def test_windows_do_not_depend_on_the_time_zone(
    spark: SparkSession, broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    Transactions(broker.bootstrap, topic).write(20)
    found = []
    for zone in ("UTC", "Asia/Kolkata", "America/New_York"):
        with session_time_zone(spark, zone):
            result = measure_batch(spark, settings(broker, topic, tmp_path / zone.replace("/", "-"), visible=False))
        found.append(result.frames.windows)
    pd.testing.assert_frame_equal(found[0], found[1])
    pd.testing.assert_frame_equal(found[0], found[2])


def test_deleted_records_fail_the_job_or_are_counted(
    spark: SparkSession, broker: LocalBroker, topic: str, tmp_path: Path
) -> None:
    writer = Transactions(broker.bootstrap, topic)
    ours = settings(broker, topic, tmp_path, visible=False)
    writer.write(20)
    assert follow(spark, ours, idle_s=0.5).frames.records == {topic: 20}
    writer.write(20)
    middle = end_offsets(broker.bootstrap, topic)
    writer.write(10)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([TopicPartition(topic, p, at) for p, at in middle.items()]).values():
        future.result()

    with pytest.raises(JobError, match="--allow-data-loss goes on and counts them"):
        follow(spark, ours, idle_s=0.5)
    tolerant = settings(broker, topic, tmp_path, visible=False, fail_on_data_loss=False)
    result = follow(spark, tolerant, duration_s=3)
    assert result.frames.records == {topic: 30}
    assert result.lost >= 20
