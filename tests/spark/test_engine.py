"""Queries lowered to Spark over a fixed input equal the oracle's Spark SQL, which shares nothing with them.

One session and one input for all; records come from memory instead of Kafka, as Spark's Kafka source would give them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from loadgen.oracle import verify_outputs
from nexmark import GeneratorConfig, Profile, generate_json
from tests.verify.run import QUERIES
from towpath.query import Query, agg, expr, hopping, session, tumbling
from towpath.query.loading import find_query
from towpath.spark.judge import Mode, graph_of, require

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = 6_000
"""A minute of the event model at 100 events a second."""

BASE_MS = 1_600_000_000_000
OTHERS = ("key_count", "map_map")


def records(spark: SparkSession, values: list[bytes | str]) -> DataFrame:
    """Records of one partition, 1 ms apart, as Spark's Kafka source gives them."""
    count = len(values)
    columns = {
        "key": pa.nulls(count, pa.binary()),
        "value": pa.array([value.encode() if isinstance(value, str) else value for value in values], pa.binary()),
        "partition": pa.array(np.zeros(count, dtype=np.int32)),
        "offset": pa.array(np.arange(count)),
        "timestamp": pa.array((BASE_MS + np.arange(count)) * 1000, pa.timestamp("us", "UTC")),
    }
    return spark.createDataFrame(pa.table(columns))


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    lines = generate_json(
        GeneratorConfig(seed=42, profile=Profile.constant(100)), 0, EVENTS, sched_ms=np.arange(EVENTS)
    ).to_pylist()
    return records(spark, lines).cache()


def in_batch(query: Query, inputs: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """Sink → its records."""
    from towpath.spark.lower import lower
    from towpath.spark.run import Job, sources_of
    from towpath.spark.sinks import records as written

    graph = graph_of(query)
    require(graph, Mode.BATCH, query.app)
    sources = sources_of(Job(query.plan(), graph, ""), inputs.__getitem__, Mode.BATCH)
    return {sink.topic: written(rows, sink) for sink, rows in lower(graph, sources, Mode.BATCH).items()}


def rows(query: Query, spark: SparkSession, *values: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the query's one sink for these records of topic ``in``."""
    (found,) = in_batch(query, {"in": records(spark, [json.dumps(value) for value in values])}).values()
    return [json.loads(record.value) for record in found.collect()]


ON_SPARK = [name for name in (*QUERIES, *OTHERS) if name != "q10"]
"""Q10 writes files, which only services do."""


@pytest.mark.parametrize("name", ON_SPARK)
def test_a_query_gives_what_the_oracle_expects(name: str, spark: SparkSession, events: DataFrame) -> None:
    module, _, mode = name.partition("_") if name not in OTHERS else (name, "", "")
    query = find_query(f"queries.{module}", {"mode": mode} if mode else None)
    assert isinstance(query, Query)
    (sink,) = in_batch(query, {"nexmark-events": events}).values()
    placed = sink.selectExpr("key", "value", "0 AS partition", "monotonically_increasing_id() AS offset")
    compared = verify_outputs(spark, name, events, placed.cache())
    placed.unpersist()
    assert compared.ok, compared.to_dict()
    assert compared.expected > 0


SCHEMA = {"k": pl.String, "v": pl.Int64, "t": pl.Int64}


SIDES = nw.col("v") < 100, nw.col("v") >= 100
"""Of a join."""


def source(query: Query, **more: Any) -> Any:
    return query.source("in", schema=SCHEMA, event_time="t", **more)


def row(k: str | None, v: int | None, t: int = 0) -> dict[str, Any]:
    return {"k": k, "v": v, "t": t}


def test_records_that_do_not_fit_and_rows_without_a_key_are_left_out(spark: SparkSession) -> None:
    query = Query("q")
    source(query).key_by("k").count().sink("out", key="k")
    inputs = [json.dumps(row("a", 1)), "no JSON", '{"k": "a", "v": "text", "t": 1}', json.dumps(row(None, 1))]
    (found,) = in_batch(query, {"in": records(spark, inputs)}).values()
    assert [(bytes(record.key), json.loads(record.value)) for record in found.collect()] == [
        (b"a", {"k": "a", "count": 2})
    ]


def test_of_rows_equal_in_their_order_the_first_or_the_last_that_came_counts(spark: SparkSession) -> None:
    inputs = [row("a", 1, 5), row("a", 2, 5), row("a", 3, 5)]
    query = Query("q")
    source(query).key_by("k").latest(by="t").sink("out", key="k")
    assert [each["v"] for each in rows(query, spark, *inputs)] == [3]
    query = Query("q")
    source(query).key_by("k").top(1, by="t").sink("out", key="k")
    assert [each["v"] for each in rows(query, spark, *inputs)] == [1]


def test_each_row_has_its_count_in_the_order_of_the_input(spark: SparkSession) -> None:
    query = Query("q")
    source(query).key_by("k").count(emit="each").sink("out", key="k")
    found = rows(query, spark, row("a", 1), row("b", 1), row("a", 1))
    assert sorted((each["k"], each["count"]) for each in found) == [("a", 1), ("a", 2), ("b", 1)]


def test_aggregates_pass_over_nulls_and_where(spark: SparkSession) -> None:
    query = Query("q")
    high = nw.col("v") > 1
    source(query).key_by("k").aggregate(
        n=agg.count(), high=agg.count(where=high), sum=agg.sum("v", where=high), least=agg.min("v"), mean=agg.mean("v")
    ).sink("out", key="k")
    (found,) = rows(query, spark, row("a", 1), row("a", 4), row("a", None))
    assert found == {"k": "a", "n": 3, "high": 1, "sum": 4, "least": 1, "mean": 2.5}


def test_sums_over_nothing_are_zero(spark: SparkSession) -> None:
    query = Query("q")
    source(query).key_by("k").aggregate(sum=agg.sum("v")).sink("out", key="k")
    assert rows(query, spark, row("a", None)) == [{"k": "a", "sum": 0}]


def test_a_row_meets_the_tables_newest_row(spark: SparkSession) -> None:
    query = Query("q")
    all_rows = source(query)
    facts = all_rows.filter(nw.col("t") == 0)
    asking = all_rows.filter(nw.col("t") == 1)
    asking.key_by("k").stage("join").enrich(facts.key_by("k"), columns={"fact": "v"}).sink("out")
    found = rows(query, spark, row("a", 7, 1), row("a", 1), row("a", 2), row("b", 3), row("c", 9, 1))
    assert [(each["k"], each["v"], each["fact"]) for each in found] == [("a", 7, 2)]


@pytest.mark.parametrize(
    ("how", "alone"), [("inner", []), ("left", [("a", -10, 3, None), ("a", 0, 1, None), ("a", 0, 3, None)])]
)
def test_rows_meet_in_their_windows(how: Any, alone: list[Any], spark: SparkSession) -> None:
    query = Query("q")
    all_rows = source(query)
    left, right = (all_rows.filter(low).key_by("k").window(hopping(20, 10), on="t") for low in SIDES)
    left.join(right, columns={"other": "v"}, how=how).sink("out")
    inputs = [row("a", 1, 12), row("a", 101, 25), row("a", 3, 7), row("b", 102, 12), row("a", 103, 31)]
    found = [(each["k"], each["window_start"], each["v"], each["other"]) for each in rows(query, spark, *inputs)]
    assert sorted(found, key=str) == sorted([("a", 10, 1, 101), *alone], key=str)


def test_rows_exactly_a_gap_apart_are_one_session(spark: SparkSession) -> None:
    query = Query("q")
    source(query).key_by("k").window(session(10), on="t").count("n").sink("out")
    found = rows(query, spark, row("a", 1, 0), row("a", 1, 10), row("a", 1, 21))
    assert sorted((each["window_start"], each["window_end"], each["n"]) for each in found) == [(0, 20, 2), (21, 31, 1)]


def test_windows_before_the_epoch_begin_at_multiples_of_their_size(spark: SparkSession) -> None:
    query = Query("q")
    source(query).key_by("k").window(tumbling(10), on="t").count("n").sink("out")
    assert [(each["window_start"], each["window_end"]) for each in rows(query, spark, row("a", 1, -1))] == [(-10, 0)]


def test_python_functions_on_batches_and_on_rows(spark: SparkSession) -> None:
    query = Query("q")
    doubled = source(query).map_batches(lambda frame: frame.with_columns(v=pl.col("v") * 2))

    def running(each: dict[str, Any], state: Any) -> list[dict[str, Any]]:
        state.set(state.get(0) + each["v"])
        return [{"k": each["k"], "sum": state.get()}]

    summed = doubled.key_by("k").process(running, schema={"k": pl.String, "sum": pl.Int64}, name="running")
    summed.sink("out", key="k")
    found = rows(query, spark, row("a", 1), row("b", 5), row("a", 2))
    assert sorted((each["k"], each["sum"]) for each in found) == [("a", 2), ("a", 6), ("b", 10)]


def test_branches_unions_several_sinks_and_forms_of_expressions(spark: SparkSession) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    query = Query("q")
    all_rows = source(query, emit_time="sched_ms")
    low = all_rows.filter(nw.col("v") < 5).with_columns(v=expr(polars=pl.col("v") * 10, spark="v * 10"))
    high = all_rows.filter(nw.col("v") >= 5)
    high.select("v", up=expr(polars=pl.col("k").str.to_uppercase(), spark=lambda: F.upper("k"))).sink("high")
    low.union(high).key_by("k", "t").count("n").sink("both", key=("k", "t"))
    inputs = [{**row('q"', 1), "sched_ms": 3}, {**row("b", 9), "sched_ms": 4}]
    found = in_batch(query, {"in": records(spark, [json.dumps(each) for each in inputs])})
    assert [json.loads(record.value) for record in found["high"].collect()] == [{"v": 9, "up": "B", "sched_ms": 4}]
    keys = sorted(bytes(record.key) for record in found["both"].collect())
    assert keys == [b'["b",0]', b'["q\\"",0]']
