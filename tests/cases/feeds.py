"""Rows with event time that come while a stage grows and shrinks: what the tests of keyed steps share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from statemgr.control.records import Manner, Strategy
from tests.cases.clusters import running
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster
from tests.unit.towpath.stage.plans import APP, SOURCE
from towpath.query import KeyedStream, Query
from towpath.query.plan import StagePlan

KEYS = 60
LAG_MS = 20
END_MS = 10**9
STEPS = 60
STRATEGIES = [Strategy.RESTART, Strategy.REPLAY, Strategy.LAZY, Strategy.HYBRID]


def plan(step: Callable[[KeyedStream], None]) -> StagePlan:
    """One stage, straight from the source."""
    query = Query(APP, partitions=TASKS)
    schema = {"auction": pl.Int64, "t": pl.Int64}
    rows = query.source(SOURCE, schema=schema, keyed_by="auction", event_time="t", lag_ms=LAG_MS, stage=STAGE)
    step(rows.key_by("auction"))
    return query.plan().stage(STAGE)


def a_little_late(number: int) -> int:
    """Event time of a row, by its number."""
    return number * 2 - number % 5


def bid(number: int, time_ms: int) -> dict[str, Any]:
    """A row, by its number."""
    return {"auction": number * 7 % KEYS, "t": time_ms}


class Feed:
    """Rows whose event time goes on by about 10 ms a step, some of them a little late."""

    def __init__(
        self, cluster: Cluster, times: Callable[[int], int] = a_little_late, row: Callable[[int, int], Any] = bid
    ) -> None:
        self.cluster = cluster
        self._times = times
        self._row = row
        self._number = 0

    def step(self) -> None:
        for _ in range(6):
            self._number += 1
            self.cluster.write([self._row(self._number, self._times(self._number))])
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


def through_moves(
    step: Callable[[KeyedStream], None],
    strategy: Strategy,
    state_dir: Path | None = None,
    times: Callable[[int], int] = a_little_late,
) -> Cluster:
    """A cluster that has grown from one replica to three and shrunk to one again, while rows came."""
    cluster = Cluster(Manner(strategy=strategy, bins=4), plan=plan(step), state_dir=state_dir)
    grow_and_shrink(cluster, times)
    return cluster


def grow_and_shrink(
    cluster: Cluster, times: Callable[[int], int] = a_little_late, row: Callable[[int, int], Any] = bid
) -> None:
    """Grow from one replica to three and shrink to one again, while rows come."""
    cluster.add("a")
    cluster.settle()
    feed = Feed(cluster, times, row)
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


def lose_a_newcomer(cluster: Cluster, feed: Feed, steps: int) -> None:
    """``steps`` with one replica, then a second one that dies amid the move to it, and its tasks return."""
    cluster.add("a")
    cluster.settle()
    feed.steps(steps)
    cluster.add("b")
    feed.until(lambda: set(cluster.owners().values()) == {"a", "b"})
    feed.steps(5)
    del cluster.nodes["b"]
    cluster.coordinator.died(STAGE, "b")
    feed.until(lambda: set(cluster.owners().values()) == {"a"})


def end(cluster: Cluster) -> None:
    """Let all state come, and event time to the end."""
    cluster.hurry()
    cluster.settle()
    cluster.write([{"auction": KEYS * TASKS + number, "t": END_MS} for number in range(TASKS)])
    cluster.rest()
    for _ in range(50):
        cluster.step()
