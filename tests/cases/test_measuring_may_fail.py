"""Figures may fail at every call: ownership, commits and results are the same as without."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import Counter, Gauge, Histogram

from statemgr.errors import ProducerLostError
from tests.cases.clusters import grown, moved, running, work
from tests.unit.towpath.stage.plans import SOURCE, assert_exactly_once, bids, count_stage, random_auctions
from towpath.testing import StageDriver

AUCTIONS = random_auctions(60, 7)

CALLS = (
    (Counter, "inc"),
    (Gauge, "set"),
    (Histogram, "observe"),
    (Gauge, "remove"),
    (Gauge, "clear"),
    (Counter, "labels"),
    (Gauge, "labels"),
    (Histogram, "labels"),
)


def broken(*_: Any, **__: Any) -> None:
    raise OSError("no space left on device")


@pytest.fixture(params=CALLS, ids=lambda call: f"{call[0].__name__}.{call[1]}")
def break_it(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Lets a call of the metrics library fail from now on."""
    owner, name = request.param
    return lambda: monkeypatch.setattr(owner, name, broken)


def test_a_replica_processes_commits_loses_ownership_and_stops_as_ever(break_it: Any) -> None:
    driver = StageDriver(count_stage(), partitions={SOURCE: 1}, json_batch_records=9)
    driver.pipe(SOURCE, bids(AUCTIONS))
    driver.run_once()
    driver.run_once()
    break_it()
    driver.kafka.fail_next("commit", ProducerLostError("fenced"), client="count-0")
    driver.run_until_idle()
    assert_exactly_once(driver, AUCTIONS, "each")
    driver.stop("count")
    assert driver.process("count").replica is not None
    assert driver.process("count").replica.phase == "stopped"


def test_tasks_are_released_and_taken_as_ever(break_it: Any) -> None:
    cluster = grown("a", "b")
    break_it()
    partition = next(iter(cluster.nodes["a"].owned()))
    moved(cluster, partition, "b")
    cluster.kafka.fail_next("commit", ProducerLostError("fenced"), client="b")
    work(cluster, running(cluster, "a", "b"))
    cluster.assert_exact()


def test_a_replica_can_start_although_nothing_can_be_counted(break_it: Any) -> None:
    driver = StageDriver(count_stage(), partitions={SOURCE: 1}, json_batch_records=9)
    driver.pipe(SOURCE, bids(AUCTIONS))
    driver.process("count")
    break_it()
    driver.run_until_idle()
    assert_exactly_once(driver, AUCTIONS, "each")
