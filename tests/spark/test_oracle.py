"""The oracle accepts what a correct run puts out, and finds each way in which a run can be wrong."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl
import pytest

import nexmark
from loadgen.errors import OptionError
from loadgen.oracle import QUERIES, VerifyResult, verify_outputs, verify_rows, verify_state
from tests.harness.spark import kafka_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = 400
Row = dict[str, Any]


@pytest.fixture(scope="module")
def values() -> list[str]:
    config = nexmark.GeneratorConfig(seed=7)
    stamps = config.emission_indices(1_700_000_000_000, EVENTS)
    return [value.decode() for value in nexmark.generate_json(config, 0, EVENTS, sched_ms=stamps).to_pylist()]


@pytest.fixture(scope="module")
def events(spark: SparkSession, values: list[str]) -> DataFrame:
    return kafka_rows(spark, [(None, value, 0, i) for i, value in enumerate(values)]).cache()


@pytest.fixture(scope="module")
def bids(values: list[str]) -> list[Row]:
    return [row for row in map(json.loads, values) if row["type"] == "bid"]


def sink(spark: SparkSession, rows: list[Row]) -> DataFrame:
    return kafka_rows(spark, [(None, json.dumps(row), 0, i) for i, row in enumerate(rows)])


def projected(bids: list[Row], *names: str) -> list[Row]:
    return [{name: bid[name] for name in (*names, "sched_ms")} for bid in bids]


def counts(bids: list[Row], batch: int = 1) -> list[Row]:
    """Outputs of a key count: one per key and `batch` bids."""
    totals: dict[int, int] = {}
    outputs = []
    for start in range(0, len(bids), batch):
        fresh: dict[int, int] = {}
        for bid in bids[start : start + batch]:
            fresh[bid["auction"]] = fresh.get(bid["auction"], 0) + 1
        for auction, events in fresh.items():
            totals[auction] = totals.get(auction, 0) + events
            outputs.append({"auction": auction, "count": totals[auction], "events": events})
    return outputs


def count_sink(spark: SparkSession, outputs: list[Row]) -> DataFrame:
    return kafka_rows(
        spark,
        [(str(o["auction"]), json.dumps(o), o.get("p", o["auction"] % 3), i) for i, o in enumerate(outputs)],
    )


def check_q0(spark: SparkSession, events: DataFrame, rows: list[Row], **how: Any) -> VerifyResult:
    return verify_outputs(spark, "q0", events, sink(spark, rows), **how)


def q0_rows(bids: list[Row]) -> list[Row]:
    return projected(bids, "auction", "bidder", "price", "date_time", "extra")


def test_correct_rows_are_accepted_in_any_order(spark: SparkSession, events: DataFrame, bids: list[Row]) -> None:
    result = check_q0(spark, events, q0_rows(bids)[::-1])
    assert result.ok
    assert (result.input_events, result.expected, result.actual, result.mismatches) == (EVENTS, 368, 368, 0)


def test_lost_duplicated_changed_and_invented_rows_are_told_apart(
    spark: SparkSession, events: DataFrame, bids: list[Row]
) -> None:
    rows = q0_rows(bids)
    wrong = [rows[1], *rows[1:10], rows[10] | {"price": 1}, *rows[11:]]
    result = check_q0(spark, events, wrong)
    assert not result.ok
    assert result.faults == {"duplicated": 1, "missing": 2, "unexpected": 1}
    assert {sample["price"] for sample in result.samples if sample["fault"] == "unexpected"} == {1}


def test_at_least_once_allows_repetition_but_no_loss(spark: SparkSession, events: DataFrame, bids: list[Row]) -> None:
    rows = q0_rows(bids)
    assert check_q0(spark, events, rows + rows[:5], guarantee="at_least_once").ok
    assert check_q0(spark, events, rows[1:], guarantee="at_least_once").faults == {"missing": 1}


def test_an_empty_run_is_not_a_correct_run(spark: SparkSession, events: DataFrame) -> None:
    nothing = events.where("false")
    assert not verify_outputs(spark, "q0", nothing, nothing).ok


def test_q1_compares_money_exactly(spark: SparkSession, events: DataFrame, bids: list[Row]) -> None:
    def text(bid: Row, extra_digit: str = "") -> str:
        milli = bid["price"] * 908
        row = json.dumps({name: bid[name] for name in ("auction", "bidder", "date_time", "extra", "sched_ms")})
        return f'{row[:-1]}, "price": {milli // 1000}.{milli % 1000:03d}{extra_digit}}}'

    right = [(None, text(bid), 0, i) for i, bid in enumerate(bids)]
    assert verify_outputs(spark, "q1", events, kafka_rows(spark, right)).ok
    wrong = [(None, text(bids[0], "1"), 0, 0), *right[1:]]
    assert verify_outputs(spark, "q1", events, kafka_rows(spark, wrong)).faults == {"missing": 1, "unexpected": 1}


def test_stateless_queries_follow_their_definition(spark: SparkSession, events: DataFrame, bids: list[Row]) -> None:
    q2 = [row for row in projected(bids, "auction", "price") if row["auction"] % 123 == 0]
    dirs = [dict(zip(("dir1", "dir2", "dir3"), bid["url"].split("/")[3:6], strict=True)) for bid in bids]
    q22 = [
        row | parts for row, parts in zip(projected(bids, "auction", "bidder", "price", "channel"), dirs, strict=True)
    ]
    mapped = [
        row | {"price_milli": row["price"] * 908, "price_band": (row["price"] >= 10_000) + (row["price"] >= 1_000_000)}
        for row in projected(bids, "auction", "bidder", "price", "date_time")
    ]
    for name, rows in (("q2", q2), ("q22", q22), ("map_map", mapped)):
        result = verify_outputs(spark, name, events, sink(spark, rows))
        assert result.ok, (name, result)


def test_counts_are_accepted_per_bid_and_per_batch(spark: SparkSession, events: DataFrame, bids: list[Row]) -> None:
    each = counts(bids)
    assert verify_outputs(spark, "key_count", events, count_sink(spark, each), emit="each").ok
    batched = verify_outputs(spark, "key_count", events, count_sink(spark, counts(bids, batch=50)))
    assert batched.ok
    assert batched.actual < len(each)


def test_every_fault_of_a_stream_of_counts_has_its_name(
    spark: SparkSession, events: DataFrame, bids: list[Row]
) -> None:
    right = counts(bids, batch=50)
    last = {o["auction"]: i for i, o in enumerate(right)}
    busy = max(last, key=lambda auction: right[last[auction]]["count"])
    first_of_busy = next(o for o in right if o["auction"] == busy)
    end = right[last[busy]]
    cases = {
        "lost output": ([o for i, o in enumerate(right) if i != last[busy]], {"wrong_last"}),
        "lost key": ([o for o in right if o["auction"] != busy], {"missing"}),
        "extra key": ([*right, {"auction": 5, "count": 1, "events": 1}], {"unexpected"}),
        "repeated output": ([*right, end], {"events_differ", "not_advancing"}),
        "going back": ([*right, first_of_busy, end | {"events": None}], {"events_differ", "not_advancing"}),
        "counted twice": ([*right, end | {"count": end["count"] + 1, "events": 1}], {"out_of_range", "wrong_last"}),
        "two owners": ([*right[:-1], right[-1] | {"p": 9}], {"several_partitions"}),
        "no count": ([*right, {"auction": busy}], {"not_advancing"}),
    }
    found = {
        name: set(verify_outputs(spark, "key_count", events, count_sink(spark, rows)).faults)
        for name, (rows, _) in cases.items()
    }
    assert {name: faults for name, (_, faults) in cases.items() if not faults <= found[name]} == {}, found


def test_a_skipped_count_is_found_when_each_bid_has_an_output(
    spark: SparkSession, events: DataFrame, bids: list[Row]
) -> None:
    outputs = [o | {"events": None} for o in counts(bids)]
    skipped = next(i for i, o in enumerate(outputs) if o["count"] == 2)
    rows = outputs[:skipped] + outputs[skipped + 1 :]
    assert verify_outputs(spark, "key_count", events, count_sink(spark, rows)).ok or skipped == len(outputs) - 1
    result = verify_outputs(spark, "key_count", events, count_sink(spark, rows), emit="each")
    assert result.faults == {"not_each": 1}


def test_a_key_that_is_not_the_auction_is_found(spark: SparkSession, events: DataFrame, bids: list[Row]) -> None:
    rows = count_sink(spark, counts(bids)).selectExpr("CAST(NULL AS BINARY) AS key", "value", "partition", "offset")
    assert set(verify_outputs(spark, "key_count", events, rows).faults) == {"wrong_key"}


def test_state_is_compared_key_by_key(spark: SparkSession, events: DataFrame, bids: list[Row]) -> None:
    final = {o["auction"]: o["count"] for o in counts(bids)}
    first, second, *_ = final

    def check(entries: list[tuple[int, str]]) -> VerifyResult:
        rows = [("counts", 0, str(auction), value) for auction, value in entries]
        state = spark.createDataFrame(rows, "table STRING, partition INT, key STRING, value STRING")
        return verify_state(spark, "key_count", events, state)

    right = [(auction, str(count)) for auction, count in final.items()]
    assert check(right).ok
    assert check([(auction, json.dumps({"count": count})) for auction, count in final.items()]).ok
    assert check(right[1:]).faults == {"missing": 1}
    assert check([*right, right[0]]).faults == {"duplicated": 1}
    assert check([(first, str(final[first] + 1)), *right[1:]]).faults == {"missing": 1, "unexpected": 1}
    assert check([*right, (second, "not a number")]).faults == {"unexpected": 1}


def test_unreadable_input_is_counted_and_left_out(spark: SparkSession, events: DataFrame, bids: list[Row]) -> None:
    poison = kafka_rows(spark, [(None, "{broken", 0, 9999), (None, None, 0, 10000)])
    result = verify_outputs(spark, "q0", events.union(poison), sink(spark, q0_rows(bids)))
    assert result.ok
    assert (result.input_events, result.unreadable_events) == (EVENTS + 2, 2)


def test_what_the_oracle_does_not_know_is_refused(spark: SparkSession, events: DataFrame) -> None:
    with pytest.raises(OptionError, match="does not know the query 'q99'; it knows map_map"):
        verify_outputs(spark, "q99", events, events)
    with pytest.raises(OptionError, match="q0 keeps no state"):
        verify_state(spark, "q0", events, events)


def test_rows_of_files_are_compared_with_the_columns_of_their_directories(
    spark: SparkSession, events: DataFrame, bids: list[Row], tmp_path: Path
) -> None:
    def check(rows: list[Row], name: str) -> VerifyResult:
        for number, row in enumerate(rows):
            happened = datetime.fromtimestamp(row["date_time"] / 1000, UTC)
            place = tmp_path / name / f"dt={happened:%Y-%m-%d}" / f"hm={happened:%H}%3A{happened:%M}"
            place.mkdir(parents=True, exist_ok=True)
            pl.DataFrame([row]).write_parquet(place / f"part-{number}.parquet")
            (place / ".part-9.parquet.tmp").write_bytes(b"PAR1 that was never ended")
            (place / "_SUCCESS").touch()
        files = spark.read.schema(QUERIES["q10"].output_schema).parquet(str(tmp_path / name))
        return verify_rows(spark, "q10", events, files)

    rows = [{name: bid[name] for name in ("auction", "bidder", "price", "date_time", "extra")} for bid in bids]
    result = check(rows, "right")
    assert result.ok, result
    assert (result.expected, result.actual) == (len(bids), len(bids))
    assert check([*rows[1:], rows[1]], "wrong").faults == {"duplicated": 1, "missing": 1}
    with pytest.raises(OptionError, match="key_count puts out updates"):
        verify_rows(spark, "key_count", events, events)
