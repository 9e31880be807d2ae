"""The load job over the real connector and a real broker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

import nexmark
from loadgen.errors import OptionError, TopicError, UnreachableError
from loadgen.load import LoadSettings, Progress, run_load
from loadgen.options import SourceOptions
from loadgen.topics import append_span_ms, earliest_offsets, end_offsets, ensure_topic, measure_clock
from tests.harness.spark import read_topic

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from towpath.broker import LocalBroker

Names = Callable[[str], str]


def test_a_paced_load_is_the_sequence_in_order_at_its_time(
    spark: SparkSession, broker: LocalBroker, unique_name: Names
) -> None:
    topic = unique_name("paced")
    source = SourceOptions(seed=3, profile="step(500,2000,1)", duration_ms=2500, span_ms=1000)
    seen: list[Progress] = []
    result = run_load(
        spark, LoadSettings(broker.bootstrap, topic, source, create_partitions=4, warm_up=False), seen.append
    )

    assert (result.events, result.interrupted, result.partitions) == (500 + 3000, False, 4)
    assert result.t0_ms is not None
    records = read_topic(spark, broker.bootstrap, topic).collect()
    config = nexmark.GeneratorConfig(seed=3, profile=nexmark.Profile.parse(source.profile))
    numbers = config.emission_indices(0, result.events)
    sched = config.profile.offsets_ms(numbers) + result.t0_ms
    values = nexmark.generate_json(config, 0, result.events, sched_ms=sched).to_pylist()
    for partition in range(4):
        mine = sorted((r["offset"], r) for r in records if r["partition"] == partition)
        assert [bytes(r["value"]) for _, r in mine] == values[partition::4]
        early = [r["append_ms"] - s for (_, r), s in zip(mine, sched[partition::4].tolist(), strict=True)]
        assert min(early) >= -1
    assert result.delay_p50_ms is not None
    assert result.delay_max_with_warmup_ms == max(r["append_ms"] - r["sched_ms"] for r in records)
    assert seen[-1].events == seen[-1].total == result.events


def test_a_load_at_full_speed_loses_and_repeats_nothing(
    spark: SparkSession, broker: LocalBroker, unique_name: Names
) -> None:
    topic = unique_name("full")
    settings = LoadSettings(broker.bootstrap, topic, SourceOptions(events=20_000), full_speed=True, create_partitions=4)
    result = run_load(spark, settings)
    assert (result.events, result.profile, result.delay_p50_ms) == (20_000, "max", None)
    eids = read_topic(spark, broker.bootstrap, topic).selectExpr(
        "partition", "BIGINT(GET_JSON_OBJECT(CAST(value AS STRING), '$.eid')) AS eid", "sched_ms", "append_ms"
    )
    found = eids.selectExpr(
        "COUNT(*) AS n", "COUNT(DISTINCT eid) AS d", "COUNT_IF(partition <> eid % 4) AS misplaced",
        "COUNT_IF(append_ms < sched_ms) AS early",
    ).first()  # fmt: skip
    assert found is not None
    assert found.asDict() == {"n": 20_000, "d": 20_000, "misplaced": 0, "early": 0}


def test_keyed_records_lie_where_murmur2_puts_them(
    spark: SparkSession, broker: LocalBroker, unique_name: Names
) -> None:
    topic, other = unique_name("keyed"), unique_name("murmur2")
    source = SourceOptions(events=600, key="auction")
    result = run_load(spark, LoadSettings(broker.bootstrap, topic, source, full_speed=True, create_partitions=5))
    assert result.partitioner == "murmur2(auction)"
    rows = read_topic(spark, broker.bootstrap, topic).where("key IS NOT NULL").select("key", "partition").collect()
    placed = {bytes(row["key"]): row["partition"] for row in rows}
    assert len(placed) == len({(bytes(row["key"]), row["partition"]) for row in rows})

    ensure_topic(broker.bootstrap, other, 5)
    expected: dict[bytes, int] = {}
    producer = Producer({"bootstrap.servers": broker.bootstrap, "partitioner": "murmur2_random", "log_level": 0})
    for key in placed:
        producer.produce(other, b"", key, on_delivery=lambda _, m: expected.update({m.key(): m.partition()}))
    producer.flush(10)
    assert placed == expected


def test_a_load_that_is_stopped_ends_and_says_so(spark: SparkSession, broker: LocalBroker, unique_name: Names) -> None:
    stop = threading.Event()
    source = SourceOptions(profile="constant(500)", lead_ms=200)
    settings = LoadSettings(
        broker.bootstrap, unique_name("stopped"), source, create_partitions=2, warm_up=False, measure=False
    )

    def after_some(progress: Progress) -> None:
        if progress.events > 100:
            stop.set()

    began = time.monotonic()
    result = run_load(spark, settings, after_some, stop)
    assert result.interrupted
    assert result.events > 100
    assert time.monotonic() - began < 30


def test_an_unfit_or_missing_topic_is_refused_before_anything_is_written(
    spark: SparkSession, broker: LocalBroker, unique_name: Names
) -> None:
    topic = unique_name("unfit")
    source = SourceOptions(events=10)
    with pytest.raises(TopicError, match="does not exist; create it, or add --create-topic partitions=8"):
        run_load(spark, LoadSettings(broker.bootstrap, topic, source))
    with pytest.raises(OptionError, match="needs a number of events or a duration"):
        run_load(spark, LoadSettings(broker.bootstrap, topic, SourceOptions(), full_speed=True))
    assert ensure_topic(broker.bootstrap, topic, 3) == 3
    with pytest.raises(TopicError, match="has 3 partitions, not 8; delete it, or ask for 3"):
        ensure_topic(broker.bootstrap, topic, 8)
    with pytest.raises(UnreachableError, match=r"no answer from Kafka at 127\.0\.0\.1:1 .*is the broker running"):
        ensure_topic("127.0.0.1:1", topic)


def test_the_brokers_clock_on_the_same_host_is_this_hosts(broker: LocalBroker) -> None:
    reading = measure_clock(broker.bootstrap)
    assert abs(reading.offset_ms) <= reading.error_ms + 2


def test_the_span_of_an_empty_topic_is_unknown(broker: LocalBroker, unique_name: Names) -> None:
    topic = unique_name("empty")
    ensure_topic(broker.bootstrap, topic, 2)
    ends = end_offsets(broker.bootstrap, topic)
    assert ends == earliest_offsets(broker.bootstrap, topic) == {0: 0, 1: 0}
    assert append_span_ms(broker.bootstrap, topic, {0: 0, 1: 0}, ends) is None
