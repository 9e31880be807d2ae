"""A paused owner that wakes up beside its successor changes nothing that can be read."""

from __future__ import annotations

import pytest

from statemgr.store import MemoryBackend
from tests.unit.towpath.stage.plans import SOURCE, assert_exactly_once, bids, count_stage, random_auctions
from towpath.stage.settings import StageSettings
from towpath.testing import StageDriver
from towpath.testing.process import ReplicaProcess

AUCTIONS = random_auctions(60, 5)


def successor(driver: StageDriver) -> ReplicaProcess:
    """A second process of the same replica, on another machine."""
    settings = StageSettings(query="kc", stage="count", json_batch_records=7)
    return ReplicaProcess(count_stage(), settings, driver.kafka, driver.clock, MemoryBackend())


@pytest.mark.parametrize("asleep_in", ["begin", "produce_batch", "produce", "send_offsets", "flush", "commit"])
@pytest.mark.parametrize("turns", [1, 3, 30], ids=["fenced", "half-way", "finished"])
def test_an_owner_that_sleeps_inside_its_transaction_is_fenced(asleep_in: str, turns: int) -> None:
    driver = StageDriver(count_stage(), partitions={SOURCE: 1}, json_batch_records=7)
    driver.pipe(SOURCE, bids(AUCTIONS))
    driver.run_once()
    other = successor(driver)

    def take_over(client: str, call: str) -> None:
        if (client, call) == ("count-0", asleep_in):
            driver.kafka.on_call(None)
            for _ in range(turns):
                other.turn()

    driver.kafka.on_call(take_over)
    for _ in range(4):
        driver.run_once()
    other.crash()
    driver.run_until_idle()
    assert_exactly_once(driver, AUCTIONS, "each")


def test_two_processes_under_one_name_take_turns_in_fencing_and_stay_exact() -> None:
    driver = StageDriver(count_stage(), partitions={SOURCE: 1}, json_batch_records=7)
    driver.pipe(SOURCE, bids(AUCTIONS))
    other = successor(driver)
    for _ in range(12):
        driver.run_once()
        other.turn()
    other.crash()
    driver.run_until_idle()
    assert_exactly_once(driver, AUCTIONS, "each")
