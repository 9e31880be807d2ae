"""Aggregates and windows whose state is moved while rows come: nothing is lost, doubled or closed too early."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from statemgr.control.records import Manner, Strategy
from tests.cases.feeds import END_MS, STRATEGIES, Feed, end, lose_a_newcomer, plan, through_moves
from tests.unit.towpath.stage.cluster import TASKS, Cluster
from tests.unit.towpath.stage.plans import SINK
from towpath.query import KeyedStream, agg, session, tumbling

WINDOW_MS = 400
GAP_MS = 12


def windows(keyed: KeyedStream) -> None:
    keyed.window(tumbling(WINDOW_MS), on="t").count("n").sink(SINK, key="auction")


def pauses(keyed: KeyedStream) -> None:
    keyed.window(session(GAP_MS), on="t").count("n").sink(SINK, key="auction")


def totals(keyed: KeyedStream) -> None:
    keyed.aggregate(n=agg.count(), first=agg.min("t"), last=agg.max("t")).sink(SINK, key="auction")


def closed(cluster: Cluster) -> list[tuple[int, int, int]]:
    """Key, start and count of the windows that have closed."""
    return [(row["auction"], row["window_start"], row["n"]) for row in (record.value for record in cluster.output())]


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


def test_windows_close_though_most_state_is_elsewhere() -> None:
    """State that is fetched only when it is needed: what a window needs when it closes is needed."""
    cluster = Cluster(Manner(strategy=Strategy.LAZY, bins=16), plan=plan(windows))
    cluster.add("a")
    cluster.settle()
    feed = Feed(cluster)
    feed.steps(20)
    cluster.add("b")
    feed.until(lambda: set(cluster.owners().values()) == {"a", "b"})
    feed.steps(150)
    moved = [partition for partition, owner in cluster.owners().items() if owner == "b"]
    now = max(row["t"] for row in cluster.sent)
    expected = Counter((row["auction"], row["t"] // WINDOW_MS * WINDOW_MS) for row in cluster.sent)
    over = {(auction, start): n for (auction, start), n in expected.items() if start + WINDOW_MS + 100 <= now}
    assert any(auction % TASKS in moved for auction, _ in over)
    found = {(auction, start): n for auction, start, n in closed(cluster)}
    assert {key: found.get(key) for key in over} == over
    cluster.close()


@pytest.mark.parametrize("strategy", [Strategy.LAZY, Strategy.HYBRID])
def test_an_owner_that_dies_tells_no_timers_and_still_every_window_closes_once(strategy: Strategy) -> None:
    cluster = Cluster(Manner(strategy=strategy, bins=16), plan=plan(windows))
    feed = Feed(cluster)
    lose_a_newcomer(cluster, feed, 20)
    feed.steps()
    expected = Counter((row["auction"], row["t"] // WINDOW_MS * WINDOW_MS) for row in cluster.sent)
    end(cluster)
    found = closed(cluster)
    assert sorted(found) == sorted((auction, start, n) for (auction, start), n in expected.items())
    cluster.close()
