"""Aggregates and windows whose state is moved while rows come: nothing is lost, doubled or closed too early."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from statemgr.control.records import Manner, Strategy
from tests.cases.clusters import running
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster
from tests.unit.towpath.stage.plans import APP, SINK, SOURCE
from towpath.query import KeyedStream, Query, agg, session, tumbling
from towpath.query.plan import StagePlan

KEYS = 60
WINDOW_MS = 400
LAG_MS = 20
GAP_MS = 12
END_MS = 10**9
STEPS = 60


def plan(step: Callable[[KeyedStream], None]) -> StagePlan:
    """One stage, straight from the source."""
    query = Query(APP, partitions=TASKS)
    schema = {"auction": pl.Int64, "t": pl.Int64}
    rows = query.source(SOURCE, schema=schema, keyed_by="auction", event_time="t", lag_ms=LAG_MS, stage=STAGE)
    step(rows.key_by("auction"))
    return query.plan().stage(STAGE)


def windows(keyed: KeyedStream) -> None:
    keyed.window(tumbling(WINDOW_MS), on="t").count("n").sink(SINK, key="auction")


def pauses(keyed: KeyedStream) -> None:
    keyed.window(session(GAP_MS), on="t").count("n").sink(SINK, key="auction")


def totals(keyed: KeyedStream) -> None:
    keyed.aggregate(n=agg.count(), first=agg.min("t"), last=agg.max("t")).sink(SINK, key="auction")


class Feed:
    """Rows whose event time goes on by about 10 ms a step, some of them a little late."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self._number = 0

    def step(self) -> None:
        for _ in range(6):
            self._number += 1
            time = self._number * 2 - self._number % 5
            self.cluster.write([{"auction": self._number * 7 % KEYS, "t": time}])
        self.cluster.step()

    def until(self, look: Callable[[], bool]) -> None:
        for _ in range(4_000):
            if look():
                return
            self.step()
        raise AssertionError(self.cluster.describe())

    def steps(self, count: int = STEPS) -> None:
        for _ in range(count):
            self.step()


def through_moves(step: Callable[[KeyedStream], None], strategy: Strategy, state_dir: Path | None = None) -> Cluster:
    """A cluster that has grown from one replica to three and shrunk to one again, while rows came."""
    cluster = Cluster(Manner(strategy=strategy, bins=4), plan=plan(step), state_dir=state_dir)
    cluster.add("a")
    cluster.settle()
    feed = Feed(cluster)
    feed.steps()
    cluster.add("b")
    feed.until(lambda: set(cluster.owners().values()) == {"a", "b"})
    feed.steps(10)
    cluster.add("c")
    feed.until(lambda: set(cluster.owners().values()) == {"a", "b", "c"})
    feed.steps()
    cluster.drain("a")
    feed.until(lambda: set(cluster.owners().values()) == {"b", "c"})
    feed.steps(20)
    cluster.drain("b")
    feed.until(running(cluster, "c"))
    feed.steps()
    return cluster


def end(cluster: Cluster) -> None:
    """Let all state come, and event time to the end."""
    cluster.hurry()
    cluster.settle()
    cluster.write([{"auction": KEYS * TASKS + number, "t": END_MS} for number in range(TASKS)])
    cluster.rest()
    for _ in range(50):
        cluster.step()


def closed(cluster: Cluster) -> list[tuple[int, int, int]]:
    """Key, start and count of the windows that have closed."""
    return [(row["auction"], row["window_start"], row["n"]) for row in (record.value for record in cluster.output())]


STRATEGIES = [Strategy.RESTART, Strategy.REPLAY, Strategy.LAZY, Strategy.HYBRID]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_window_closes_once_with_all_of_its_rows(strategy: Strategy) -> None:
    cluster = through_moves(windows, strategy)
    expected = Counter((row["auction"], row["t"] // WINDOW_MS * WINDOW_MS) for row in cluster.sent)
    end(cluster)
    found = closed(cluster)
    assert sorted(found) == sorted((auction, start, n) for (auction, start), n in expected.items())
    assert len(cluster.state()) == TASKS
    cluster.close()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_session_ends_once_with_all_of_its_rows(strategy: Strategy) -> None:
    cluster = through_moves(pauses, strategy)
    times: dict[int, list[int]] = {}
    for row in cluster.sent:
        times.setdefault(row["auction"], []).append(row["t"])
    expected = []
    for auction, each in times.items():
        each.sort()
        starts = [time for before, time in zip([-END_MS, *each], each, strict=False) if time - before > GAP_MS]
        expected += [
            (auction, start, sum(start <= time < end for time in each))
            for start, end in zip(starts, [*starts[1:], END_MS], strict=True)
        ]
    end(cluster)
    found = closed(cluster)
    assert sorted(found) == sorted(expected)
    cluster.close()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_last_aggregate_of_each_key_is_that_of_all_rows(strategy: Strategy) -> None:
    cluster = through_moves(totals, strategy)
    cluster.hurry()
    cluster.settle()
    cluster.rest()
    last = {row["auction"]: row for row in (record.value for record in cluster.output())}
    times: dict[int, list[int]] = {}
    for row in cluster.sent:
        times.setdefault(row["auction"], []).append(row["t"])
    assert {auction: (row["n"], row["first"], row["last"]) for auction, row in last.items()} == {
        auction: (len(each), min(each), max(each)) for auction, each in times.items()
    }
    cluster.close()


def test_stores_on_disk_tell_which_windows_are_open(tmp_path: Path) -> None:
    cluster = through_moves(windows, Strategy.HYBRID, tmp_path)
    end(cluster)
    expected = Counter((row["auction"], row["t"] // WINDOW_MS * WINDOW_MS) for row in cluster.sent if row["t"] < END_MS)
    found = closed(cluster)
    assert sorted(found) == sorted((auction, start, n) for (auction, start), n in expected.items())
    cluster.close()
