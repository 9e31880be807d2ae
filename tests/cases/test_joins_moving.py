"""Joins by event time whose state is moved while rows come: every pair comes out once, and none that is none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import polars as pl
import pytest

from statemgr.control.records import Manner, Strategy
from tests.cases.feeds import KEYS, LAG_MS, STRATEGIES, a_little_late, end, grow_and_shrink
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster
from tests.unit.towpath.stage.plans import APP, SINK, SOURCE
from towpath.operators.rows import Select
from towpath.query import KeyedStream, Query, Stream, tumbling
from towpath.query.plan import EventTime, Format, InputPlan, OperatorPlan, StagePlan

WINDOW_MS = 300
LOWER_MS, UPPER_MS = -40, 120
SCHEMA = {"auction": pl.Int64, "t": pl.Int64}
IDLE_S = 10.0

Pair = tuple[int, int, int | None]
"""Key, time of the left row, time of the right one."""


def plan(join: Callable[[KeyedStream, KeyedStream], Stream]) -> StagePlan:
    """The stage of a join alone, straight from the source: rows of odd times are the right side."""
    query = Query(APP, partitions=TASKS)
    rows = query.source(SOURCE, schema=SCHEMA, event_time="t", lag_ms=LAG_MS)
    joined = join(rows.key_by("auction").stage(STAGE), rows.key_by("auction"))
    joined.sink(SINK, key="auction")
    stage = query.plan().stage(STAGE)
    time = pl.col("t")
    is_right = time % 2 == 1
    sides = (
        pl.col("auction"),
        is_right.alias("join.right"),
        pl.when(~is_right).then(time).alias("t"),
        pl.when(is_right).then(time).alias("right.t"),
        time.alias("join.time"),
    )
    source = InputPlan(SOURCE, Format.JSON, SCHEMA, event_time=EventTime("t", LAG_MS, IDLE_S))
    return replace(stage, inputs=(source,), operators=(OperatorPlan("sides", lambda: Select(sides)), *stage.operators))


def in_windows(left: KeyedStream, right: KeyedStream) -> Stream:
    window = tumbling(WINDOW_MS)
    return left.window(window, on="t").join(right.window(window, on="t"), columns={"other": "t"}, how="left")


def as_they_come(left: KeyedStream, right: KeyedStream) -> Stream:
    ours, theirs = (side.window(tumbling(WINDOW_MS), on="t", emit="update") for side in (left, right))
    return ours.join(theirs, columns={"other": "t"})


def near(left: KeyedStream, right: KeyedStream) -> Stream:
    return left.join(right, on="t", within=(LOWER_MS, UPPER_MS), columns={"other": "t"})


def of_one_window(left: int, right: int) -> bool:
    return left // WINDOW_MS == right // WINDOW_MS


def of_one_interval(left: int, right: int) -> bool:
    return LOWER_MS <= right - left <= UPPER_MS


def expected(cluster: Cluster, belong: Callable[[int, int], bool]) -> list[Pair]:
    """The pairs of all rows, of which those without a partner are pairs, too."""
    times: dict[int, list[int]] = {}
    for row in cluster.sent:
        times.setdefault(row["auction"], []).append(row["t"])
    found: list[Pair] = []
    for auction, each in times.items():
        for left in (time for time in each if time % 2 == 0):
            partners = [right for right in each if right % 2 == 1 and belong(left, right)]
            found += [(auction, left, right) for right in partners or [None]]
    return sorted(found, key=str)


def found(cluster: Cluster) -> list[Pair]:
    rows = (record.value for record in cluster.output())
    return sorted(((row["auction"], row["t"], row["other"]) for row in rows if row["auction"] < KEYS), key=str)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize(
    ("join", "belong", "alone"),
    [(in_windows, of_one_window, True), (as_they_come, of_one_window, False), (near, of_one_interval, False)],
    ids=["windows", "windows as pairs come", "interval"],
)
def test_every_pair_comes_out_once(
    join: Callable[[KeyedStream, KeyedStream], Stream],
    belong: Callable[[int, int], bool],
    alone: bool,
    strategy: Strategy,
) -> None:
    cluster = Cluster(Manner(strategy=strategy, bins=4), plan=plan(join))
    grow_and_shrink(cluster, a_little_late)
    pairs = expected(cluster, belong)
    end(cluster)
    assert found(cluster) == [pair for pair in pairs if alone or pair[2] is not None]
    assert len(cluster.state()) == TASKS
    cluster.close()
