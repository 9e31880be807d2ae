"""The data source gives the generator's sequence, whatever splits it, in whatever time zone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import nexmark
from loadgen.options import SourceOptions
from loadgen.source import FORMAT, register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

T0_MS = 1_800_000_000_000
EVENTS = 2_500


@pytest.fixture(autouse=True, scope="module")
def _registered(spark: SparkSession) -> None:
    register(spark)


def read(spark: SparkSession, **options: Any) -> DataFrame:
    given = {"seed": 9, "profile": "constant(1000)", "events": EVENTS, "t0_ms": T0_MS} | options
    return spark.read.format(FORMAT).options(**SourceOptions(**given).to_options()).load()


@pytest.fixture
def time_zone(spark: SparkSession) -> Iterator[Any]:
    before = spark.conf.get("spark.sql.session.timeZone")
    yield lambda zone: spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.session.timeZone", before)


def test_a_batch_equals_the_generator(spark: SparkSession) -> None:
    config = nexmark.GeneratorConfig(seed=9, profile=nexmark.Profile.constant(1000))
    sched = config.profile.offsets_ms(np.arange(EVENTS)) + T0_MS
    rows = read(spark, topic_partitions=8, chunk_rows=700).orderBy("k").collect()
    assert [bytes(row["value"]) for row in rows] == nexmark.generate_json(config, 0, EVENTS, sched_ms=sched).to_pylist()
    assert [row["k"] for row in rows] == list(range(EVENTS))
    assert [row["sched_ms"] for row in rows] == sched.tolist()
    assert [row["partition"] for row in rows] == [k % 8 for k in range(EVENTS)]
    assert {row["key"] for row in rows} == {None}


def test_the_union_does_not_depend_on_the_number_of_tasks(spark: SparkSession, time_zone: Any) -> None:
    whole = sorted(bytes(row["value"]) for row in read(spark).collect())
    for readers, zone in ((2, "Asia/Kolkata"), (3, "America/New_York")):
        time_zone(zone)
        split = read(spark, readers=readers)
        assert split.rdd.getNumPartitions() == readers
        assert sorted(bytes(row["value"]) for row in split.collect()) == whole


def test_a_load_in_two_parts_is_the_same_load(spark: SparkSession) -> None:
    whole = read(spark).select("k", "value")
    parts = read(spark, events=1000).union(read(spark, start=1000, events=EVENTS - 1000)).select("k", "value")
    assert whole.exceptAll(parts).count() == parts.exceptAll(whole).count() == 0


def test_keys_are_the_bids_fields(spark: SparkSession) -> None:
    rows = read(spark, key="bidder", events=200).selectExpr(
        "CAST(key AS STRING) AS key", "GET_JSON_OBJECT(CAST(value AS STRING), '$.bidder') AS bidder", "partition"
    )
    found = rows.collect()
    assert all(row["key"] == row["bidder"] and row["partition"] is None for row in found)
    assert sum(row["key"] is not None for row in found) == 184


def test_a_hot_key_variation_is_a_generator_setting(spark: SparkSession) -> None:
    def share_of_busiest(**options: Any) -> float:
        auctions = read(spark, **options).selectExpr("GET_JSON_OBJECT(CAST(value AS STRING), '$.auction') AS a")
        counts = [row["count"] for row in auctions.where("a IS NOT NULL").groupBy("a").count().collect()]
        return max(counts) / sum(counts)

    hot = share_of_busiest(generator={"hot_auction_ratio": "50", "hot_batch": "100000"})
    assert hot > 0.9 > share_of_busiest()


def test_a_mistake_in_the_options_is_named(spark: SparkSession) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="unknown option sead"):
        spark.read.format(FORMAT).option("sead", 1).load().count()
    with pytest.raises(PySparkException, match="needs the option events or duration"):
        spark.read.format(FORMAT).load().count()
