"""Patterns whose state is moved while rows come: every match is found once, with all of its rows."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from statemgr.control.records import Manner, Strategy
from tests.cases.clusters import running
from tests.harness.patterns import LETTERS, Described, Row, Step
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster
from tests.unit.towpath.stage.plans import APP, SINK, SOURCE
from towpath.query import Query
from towpath.query.plan import StagePlan

KEYS = 24
LAG_MS = 20
END_MS = 10**9
STEPS = 40
ROWS = 5
"""A step."""

PATTERN = Described(
    (Step("begin", "ab", 2), Step("not_followed_by", "d"), Step("followed_by", "c"), Step("not_followed_by", "d")), 400
)
STRATEGIES = [Strategy.RESTART, Strategy.REPLAY, Strategy.BLOCK, Strategy.PRECOPY, Strategy.LAZY, Strategy.HYBRID]


def plan() -> StagePlan:
    """One stage, straight from the source."""
    query = Query(APP, partitions=TASKS)
    schema = {"auction": pl.Int64, "t": pl.Int64, "letter": pl.String, "number": pl.Int64}
    rows = query.source(SOURCE, schema=schema, keyed_by="auction", event_time="t", lag_ms=LAG_MS, stage=STAGE)
    found = rows.key_by("auction").match(PATTERN.written(), on="t", **PATTERN.measures())
    found.sink(SINK, key="auction")
    return query.plan().stage(STAGE)


class Feed:
    """Rows whose event time goes on by 10 ms a step, some of them a little late; no two of the same time."""

    def __init__(self, cluster: Cluster, seed: int) -> None:
        self.cluster = cluster
        self._chance = random.Random(seed)
        self._step = 0

    def step(self) -> None:
        times = [self._step * 2 * ROWS + 2 * each + 1 for each in range(ROWS)]
        self._chance.shuffle(times)
        for time in times:
            key = self._chance.randrange(KEYS)
            self.cluster.write([{"auction": key, "t": time, "letter": self._chance.choice(LETTERS), "number": time}])
        self._step += 1
        self.cluster.step()

    def steps(self, count: int = STEPS) -> None:
        for _ in range(count):
            self.step()

    def until(self, look: Callable[[], bool]) -> None:
        for _ in range(4_000):
            if look():
                return
            self.step()
        raise AssertionError(self.cluster.describe())


def through_moves(strategy: Strategy, state_dir: Path | None = None) -> Cluster:
    """A cluster that has grown from one replica to three and shrunk to one again, while rows came."""
    cluster = Cluster(Manner(strategy=strategy, bins=4), plan=plan(), state_dir=state_dir)
    cluster.add("a")
    cluster.settle()
    feed = Feed(cluster, STRATEGIES.index(strategy))
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


def require_matches(cluster: Cluster) -> None:
    """Let all state come, and event time to the end; every match is there once, those of a key in their order."""
    rows: dict[int, list[Row]] = {}
    for each in cluster.sent:
        rows.setdefault(each["auction"], []).append(Row(each["t"], each["letter"], each["number"]))
    cluster.hurry()
    cluster.settle()
    cluster.write([{"auction": KEYS + number, "t": END_MS, "letter": "d", "number": 0} for number in range(TASKS)])
    cluster.rest()
    for _ in range(50):
        cluster.step()
    found: dict[int, list[tuple]] = {}
    for each in (record.value for record in cluster.output()):
        of_steps = tuple(tuple(each[name]) for name in PATTERN.measures())
        found.setdefault(each["auction"], []).append((each["match_start"], each["match_end"], of_steps))
    expected = {key: list(map(tuple, PATTERN.search(sorted(each)))) for key, each in rows.items()}
    assert found == {key: each for key, each in expected.items() if each}
    assert sum(map(len, found.values())) > 10
    assert set(cluster.state()) <= {str(KEYS + number).encode() for number in range(TASKS)}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_match_is_found_once(strategy: Strategy) -> None:
    cluster = through_moves(strategy)
    require_matches(cluster)
    cluster.close()


def test_stores_on_disk_tell_what_has_begun(tmp_path: Path) -> None:
    cluster = through_moves(Strategy.HYBRID, tmp_path)
    require_matches(cluster)
    cluster.close()
