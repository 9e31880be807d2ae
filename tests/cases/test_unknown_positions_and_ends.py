"""What the broker does not say for a while is waited for: never taken for zero, never a reason to wipe or to crash."""

from __future__ import annotations

from typing import Any

import pytest

from statemgr.control.records import Strategy
from statemgr.errors import KafkaUnavailableError, RestoreStalledError, RetryableKafkaError
from statemgr.testing.consumer import FakeConsumer
from tests.cases.clusters import KEYS, grown, owned_by, work
from tests.unit.towpath.stage.cluster import TASKS, Cluster, rows_of
from tests.unit.towpath.stage.plans import CHANGELOG, SOURCE, assert_exactly_once, bids, count_stage, random_auctions
from towpath.testing import StageDriver

AUCTIONS = random_auctions(60, 7)


def blind(monkeypatch: pytest.MonkeyPatch, client: str, times: int) -> list[int]:
    """Let a client's position be unknown so many times; gives how often it still will be."""
    left, position = [times], FakeConsumer.position

    def unknown_at_first(self: FakeConsumer, partition: Any) -> int | None:
        if self.name == client and left[0] > 0:
            left[0] -= 1
            return None
        return position(self, partition)

    monkeypatch.setattr(FakeConsumer, "position", unknown_at_first)
    return left


# --- positions ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "polls"),
    [("count-0", 1), ("count-0", 59), ("count-0", 600), *(("count-0-restore", polls) for polls in (1, 59, 200))],
)
def test_a_position_that_is_unknown_for_a_while_delays_and_harms_nothing(
    client: str, polls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver = StageDriver(count_stage(), partitions={SOURCE: 1}, json_batch_records=9)
    driver.pipe(SOURCE, bids(AUCTIONS[:30]))
    driver.run_until_idle()
    driver.crash("count", lose_stores=True)
    driver.pipe(SOURCE, bids(AUCTIONS[30:]))
    left = blind(monkeypatch, client, polls)
    driver.run_until_idle()
    assert_exactly_once(driver, AUCTIONS, "each")
    assert left[0] < polls


def test_a_position_that_stays_unknown_gets_a_new_reader_and_then_an_error_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    driver = StageDriver(count_stage(), partitions={SOURCE: 1}, json_batch_records=9)
    driver.pipe(SOURCE, bids(AUCTIONS))
    driver.run_until_idle()
    driver.crash("count", lose_stores=True)
    calls: list[tuple[str, str]] = []
    driver.kafka.on_call(lambda client, call: calls.append((client, call)))
    blind(monkeypatch, "count-0-restore", 10**9)
    with pytest.raises(RestoreStalledError, match=r"no progress for 60 s: kc\.count\.changelog\[0\]"):
        driver.run_until_idle()
    assert calls.count(("count-0-restore", "assign")) == 2


# --- ends -----------------------------------------------------------------------------------------------


def orphaned(cluster: Cluster, name: str) -> list[int]:
    """Let a replica die; gives what it owned."""
    node = cluster.nodes[name]
    orphans = list(node.owned())
    node.asleep = True
    cluster.coordinator.died("count", name)
    return orphans


@pytest.mark.parametrize("times", [1, 20])
@pytest.mark.parametrize("error", [RetryableKafkaError("not yet"), KafkaUnavailableError("no leader")])
def test_an_end_that_is_unknown_during_a_take_over_is_waited_for_and_the_dead_one_s_store_is_used(
    error: Exception, times: int
) -> None:
    cluster = grown("a", "b")
    cluster.write(rows_of(range(KEYS)))
    cluster.rest()
    for _ in range(times):
        cluster.kafka.fail_next("bounds", error, client="b-opening")
    before = cluster.nodes["b"].restored()
    orphans = orphaned(cluster, "a")
    work(cluster, lambda: all(owned_by(cluster, partition, "b")() for partition in orphans))
    assert not cluster.kafka.cluster.faults.pending
    assert cluster.nodes["b"].restored() - before < KEYS / 4, "it was restored from the changelog"
    cluster.nodes.pop("a")
    cluster.assert_exact()


def test_an_end_that_lags_behind_the_store_for_a_while_wipes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Right after a rebalance the end may be told as it was: below what the store has."""
    driver = StageDriver(count_stage(), partitions={SOURCE: 1}, json_batch_records=9)
    driver.pipe(SOURCE, bids(AUCTIONS[:30]))
    driver.run_until_idle()
    driver.crash("count")
    bounds, told = FakeConsumer._bounds, []

    def lagging(self: FakeConsumer, partition: Any) -> Any:
        found = bounds(self, partition)
        if "changelog" in partition.topic and len(told) < 5:
            told.append(found)
            return found._replace(end=1)
        return found

    monkeypatch.setattr(FakeConsumer, "_bounds", lagging)
    driver.pipe(SOURCE, bids(AUCTIONS[30:]))
    driver.run_until_idle()
    labels = {"stage": "count", "replica": "count-0"}
    restored = driver.process("count").metrics.registry.get_sample_value("towpath_restored_records_total", labels)
    assert (len(told), restored) == (5, 0)
    assert_exactly_once(driver, AUCTIONS, "each")


# --- logs without records -------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [Strategy.STANDBY, Strategy.HYBRID, Strategy.REPLAY])
def test_a_task_without_any_record_is_taken_over_at_once(strategy: Strategy) -> None:
    cluster = grown("a", "b", strategy=strategy, keys=[])
    orphans = orphaned(cluster, "a")
    assert orphans
    began_s = cluster.clock.monotonic_s()
    cluster.until("b owns everything", lambda: len(cluster.nodes["b"].owned()) == TASKS, 15.0)
    cluster.nodes.pop("a")
    cluster.settle()
    assert cluster.clock.monotonic_s() - began_s < 15.0
    assert cluster.nodes["b"].restored() <= TASKS, "more than progress records"
    cluster.write(rows_of(range(8)))
    cluster.assert_exact()


@pytest.mark.parametrize("strategy", [Strategy.STANDBY, Strategy.HYBRID])
def test_a_log_of_nothing_but_deleted_and_compacted_records_counts_as_read(strategy: Strategy) -> None:
    cluster = grown("a", "b", strategy=strategy, keys=[auction for auction in range(4) for _ in range(30)])
    cluster.kafka.compact(CHANGELOG)
    for partition in range(TASKS):
        first = next(entry.offset for entry in cluster.kafka.entries(CHANGELOG, partition) if not entry.control)
        cluster.kafka.delete_records(CHANGELOG, partition, first)
    orphans = orphaned(cluster, "a")
    cluster.until("b owns everything", lambda: len(cluster.nodes["b"].owned()) == TASKS, 15.0)
    assert set(orphans) <= set(cluster.nodes["b"].owned())
    cluster.nodes.pop("a")
    cluster.assert_exact()
