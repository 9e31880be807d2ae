"""Late rows, updates, expiry and timers of tasks that move while rows come: nothing is lost, doubled, forgotten."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest

from statemgr.control.records import Strategy
from tests.cases.feeds import END_MS, KEYS, STRATEGIES, end, plan, through_moves
from tests.unit.towpath.stage.cluster import TASKS, Cluster
from tests.unit.towpath.stage.plans import SINK
from towpath.operators.process import KeyState, Row
from towpath.operators.timed_process import KeyTimers
from towpath.query import KeyedStream, agg, tumbling
from towpath.query.plan import Format
from towpath.testing.records import read_records

LATE = "late"
NARROW_MS = 20
WIDE_MS = 400
TTL_MS = 96
"""Rows of a key are about 120 ms apart, and the watermark is 20 ms behind: some begin their key anew."""


def late(keyed: KeyedStream) -> None:
    keyed.window(tumbling(NARROW_MS), on="t").late_to(LATE).count("n").sink(SINK, key="auction")


def far_behind(number: int) -> int:
    """Event time of a row: every seventh comes long after its window was closed."""
    return 1000 + number * 2 - (500 if number % 7 == 0 else number % 5)


def late_rows(cluster: Cluster) -> list[tuple[int, int]]:
    """Key and time of what came too late."""
    found = [record.value for record in read_records(cluster.kafka, LATE, Format.JSON)]
    return [(row["auction"], row["t"]) for row in found]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_row_is_in_its_window_or_written_as_late_once(strategy: Strategy) -> None:
    cluster = through_moves(late, strategy, times=far_behind)
    sent = Counter((row["auction"], row["t"]) for row in cluster.sent)
    end(cluster)
    behind = Counter(late_rows(cluster))
    assert behind
    assert all(behind[row] <= sent[row] for row in behind)
    in_time: Counter[tuple[int, int]] = Counter()
    for (auction, time), n in (sent - behind).items():
        in_time[auction, time // NARROW_MS * NARROW_MS] += n
    rows = [record.value for record in cluster.output() if record.value["window_start"] < END_MS // 2]
    assert len(rows) == len({(row["auction"], row["window_start"]) for row in rows})
    assert {(row["auction"], row["window_start"]): row["n"] for row in rows} == dict(in_time)
    cluster.close()


def test_the_plan_says_where_late_rows_go() -> None:
    outputs = {output.topic: output.default for output in plan(late).outputs}
    assert outputs == {SINK: True, LATE: False}


def updated(keyed: KeyedStream) -> None:
    keyed.window(tumbling(WIDE_MS), on="t", emit="update").count("n").sink(SINK, key="auction")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_last_update_of_every_window_counts_all_of_its_rows(strategy: Strategy) -> None:
    cluster = through_moves(updated, strategy)
    expected = Counter((row["auction"], row["t"] // WIDE_MS * WIDE_MS) for row in cluster.sent)
    end(cluster)
    rows = [record.value for record in cluster.output() if record.value["window_start"] < END_MS // 2]
    last = {(row["auction"], row["window_start"]): row["n"] for row in rows}
    assert last == dict(expected)
    assert len(rows) == len({(row["auction"], row["window_start"], row["n"]) for row in rows})
    assert len(cluster.state()) == TASKS
    cluster.close()


def expiring(keyed: KeyedStream) -> None:
    keyed.aggregate(n=agg.count(), first=agg.min("t"), ttl_ms=TTL_MS).sink(SINK, key="auction")


def seen(keyed: KeyedStream) -> None:
    keyed.distinct(ttl_ms=10 * END_MS).sink(SINK, key="auction")


def remembering(keyed: KeyedStream) -> None:
    columns = {"auction": pl.Int64, "at": pl.Int64, "n": pl.Int64}
    keyed.process(remember, schema=columns, on_timer=tell, name="remember").sink(SINK, key="auction")


def remember(row: Row, state: KeyState, timers: KeyTimers) -> list[Row]:
    """Count rows of windows of 400 ms, in a timer for each."""
    state.set(state.get(0) + 1)
    timers.set(row["t"] // WIDE_MS * WIDE_MS + WIDE_MS)
    return []


def tell(key: Row, time_ms: int, state: KeyState, timers: KeyTimers) -> list[Row]:
    n = state.get(0)
    state.delete()
    return [{"auction": key["auction"], "at": time_ms, "n": n}]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_row_is_in_one_life_of_its_key(strategy: Strategy) -> None:
    cluster = through_moves(expiring, strategy)
    sent = Counter(row["auction"] for row in cluster.sent)
    end(cluster)
    last = {(record.value["auction"], record.value["first"]): record.value["n"] for record in cluster.output()}
    rows: Counter[int] = Counter()
    for (auction, _), n in last.items():
        rows[auction] += n
    assert len(sent) < len(last) < sent.total()
    assert {auction: n for auction, n in rows.items() if auction < KEYS} == dict(sent)
    assert len(cluster.state()) == TASKS
    cluster.close()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_first_row_of_every_key_comes_out_once(strategy: Strategy) -> None:
    cluster = through_moves(seen, strategy)
    first: dict[int, int] = {}
    for row in cluster.sent:
        first.setdefault(row["auction"], row["t"])
    end(cluster)
    out = [(record.value["auction"], record.value["t"]) for record in cluster.output()]
    assert sorted(row for row in out if row[0] < KEYS) == sorted(first.items())
    cluster.close()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_timers_of_user_code_move_with_their_keys(strategy: Strategy) -> None:
    cluster = through_moves(remembering, strategy)
    sent = Counter(row["auction"] for row in cluster.sent)
    end(cluster)
    out = [record.value for record in cluster.output() if record.value["auction"] < KEYS]
    told: Counter[int] = Counter()
    for row in out:
        told[row["auction"]] += row["n"]
    assert told == sent
    assert len(out) == len({(row["auction"], row["at"]) for row in out})
    cluster.close()
