"""Exactly-once across a crash at every step: outputs, state and changelog equal a computation in plain Python (I2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from statemgr.errors import ProducerLostError
from statemgr.testing.kafka import ClientCrashedError
from tests.unit.towpath.stage.plans import (
    SINK,
    SOURCE,
    Emit,
    assert_exactly_once,
    bids,
    count_stage,
    key_count,
    outputs_by_key,
    random_auctions,
    reference,
)
from towpath.operators import combine
from towpath.stage.settings import Guarantee
from towpath.testing import StageDriver

AUCTIONS = random_auctions(60, 7)
CALLS = ("begin", "produce", "produce_batch", "send_offsets", "flush", "commit")
FAULTS: dict[str, Callable[[], BaseException]] = {
    "lost": lambda: ProducerLostError("fenced"),
    "crash": lambda: ClientCrashedError("killed"),
}


OLD_MS = 5_000
"""Age of records whose rows may wait for the end of a transaction, to be merged."""


def driven(emit: Emit, **settings: object) -> StageDriver:
    driver = StageDriver(count_stage(emit), partitions={SOURCE: 2}, json_batch_records=9, dirty_entries=3, **settings)
    driver.pipe(SOURCE, bids(AUCTIONS[:30]), keys=[str(auction).encode() for auction in AUCTIONS[:30]])
    driver.run_once()
    driver.run_once()
    driver.pipe(SOURCE, bids(AUCTIONS[30:]), keys=[str(auction).encode() for auction in AUCTIONS[30:]])
    return driver


@pytest.mark.parametrize("after", [False, True], ids=["not-applied", "answer-lost"])
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("emit", ["each", "batch"])
def test_a_failure_in_any_call_of_a_transaction_changes_nothing_that_can_be_read(
    emit: Emit, call: str, fault: str, after: bool
) -> None:
    for skip in (0,) if call == "send_offsets" else (0, 2):
        driver = driven(emit)
        driver.kafka.fail_next(call, FAULTS[fault](), client="count-0", skip=skip, after=after)
        driver.run_until_idle()
        assert not driver.kafka.cluster.faults.pending
        assert_exactly_once(driver, AUCTIONS, emit)


@pytest.mark.slow
@pytest.mark.parametrize(("emit", "lose_stores"), [("each", False), ("batch", True)], ids=["store-kept", "store-lost"])
def test_a_crash_at_every_single_call_of_a_run(emit: Emit, lose_stores: bool) -> None:
    calls: list[str] = []
    counted = driven(emit)
    counted.kafka.on_call(lambda client, call: calls.append(call) if client == "count-0" else None)
    counted.run_until_idle()
    for number in range(len(calls)):
        driver = driven(emit)
        driver.kafka.fail_next("*", ClientCrashedError("killed"), client="count-0", skip=number)
        while driver.kafka.cluster.faults.pending:
            driver.run_once()
        if lose_stores:
            driver.crash("count", lose_stores=True)
        driver.run_until_idle()
        assert_exactly_once(driver, AUCTIONS, emit)


@pytest.mark.parametrize("after", [False, True], ids=["not-written", "written"])
@pytest.mark.parametrize("emit", ["each", "batch"])
def test_a_crash_in_the_write_to_the_store_after_the_commit(emit: Emit, after: bool) -> None:
    driver = driven(emit)
    driver.process("count").stores.fail_next_write(ClientCrashedError("killed"), after=after)
    driver.run_until_idle()
    assert_exactly_once(driver, AUCTIONS, emit)


def test_a_marker_that_readers_see_late_changes_nothing() -> None:
    driver = driven("each")
    driver.kafka.cluster.marker_lag_s = 0.5
    driver.kafka.fail_next("commit", ProducerLostError("no answer"), client="count-0", after=True)
    driver.run_until_idle()
    assert_exactly_once(driver, AUCTIONS, "each")


@pytest.mark.parametrize("victim", [("source", 0), ("count", 0), ("count", 1)])
def test_a_query_of_two_stages_survives_a_crash_of_any_replica_between_any_two_rounds(victim: tuple[str, int]) -> None:
    for rounds in range(1, 6):
        driver = StageDriver(key_count("each"), replicas={"count": 2}, json_batch_records=9)
        driver.pipe(SOURCE, bids(AUCTIONS))
        for _ in range(rounds):
            driver.run_once()
        driver.crash(*victim)
        driver.run_until_idle()
        assert_exactly_once(driver, AUCTIONS, "each")


def test_stopping_and_scaling_between_batches_changes_nothing() -> None:
    driver = StageDriver(key_count("each"), replicas={"count": 1}, json_batch_records=9)
    done = 0
    for count in (3, 1, 5, 2):
        driver.pipe(SOURCE, bids(AUCTIONS[done : done + 15]))
        done += 15
        driver.run_once()
        driver.run_once()
        driver.scale("count", count)
    driver.run_until_idle()
    assert_exactly_once(driver, AUCTIONS, "each")


def test_a_fault_of_the_test_itself_would_be_seen() -> None:
    """The oracle can fail: a second run over the same input under another progress gives other counts."""
    driver = driven("each")
    driver.run_until_idle()
    driver.pipe(SOURCE, bids(AUCTIONS[:1]))
    driver.run_until_idle()
    with pytest.raises(AssertionError):
        assert_exactly_once(driver, AUCTIONS, "each")


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("call", CALLS)
def test_at_least_once_loses_nothing_and_keeps_state_exact(call: str, fault: str) -> None:
    driver = driven("each", guarantee=Guarantee.AT_LEAST_ONCE)
    driver.kafka.fail_next(call, FAULTS[fault](), client="count-0", skip=1, after=True)
    driver.run_until_idle()
    assert driver.state("count", "count") == driver.changelog_state("count", "count") == reference(AUCTIONS)
    for auction, counts in outputs_by_key(driver).items():
        assert set(counts) == set(range(1, AUCTIONS.count(auction) + 1))


@pytest.mark.parametrize("call", ["begin", "produce", "send_offsets", "flush", "commit"])
def test_at_least_once_keeps_the_state_behind_an_inner_edge_exact(call: str) -> None:
    driver = StageDriver(key_count("each"), guarantee=Guarantee.AT_LEAST_ONCE, json_batch_records=9)
    driver.pipe(SOURCE, bids(AUCTIONS))
    driver.kafka.fail_next(call, FAULTS["crash"](), client="source-0", skip=1, after=True)
    driver.run_until_idle()
    assert not driver.kafka.cluster.faults.pending
    assert driver.state("count", "count") == reference(AUCTIONS)


def test_at_least_once_shows_outputs_before_the_commit() -> None:
    driver = StageDriver(
        count_stage(), guarantee=Guarantee.AT_LEAST_ONCE, json_batch_records=3, commit_interval_ms=5000
    )
    driver.pipe(SOURCE, bids([1, 1, 1]), partition=0)
    for _ in range(3):
        driver.run_once()
    assert [row["count"] for row in driver.rows(SINK)] == [1, 2, 3]
    assert driver.changelog_state("count", "count") == {}


def old_backlog() -> StageDriver:
    """A count at its usual pace that finds records which have lain there for long, several batches of them."""
    driver = StageDriver(count_stage("batch"), partitions={SOURCE: 2}, json_batch_records=9, commit_interval_ms=500)
    keys = [str(auction).encode() for auction in AUCTIONS]
    driver.pipe(SOURCE, bids(AUCTIONS), keys=keys)
    driver.run_until_idle()
    driver.pipe(SOURCE, bids(AUCTIONS), keys=keys)
    driver.advance_time(OLD_MS)
    return driver


@pytest.mark.parametrize("least_rows", [1, combine.LEAST_ROWS], ids=["merged", "as-they-are"])
def test_old_records_have_one_output_a_key_and_transaction(least_rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(combine, "LEAST_ROWS", least_rows)
    driver = old_backlog()
    before = {auction: len(counts) for auction, counts in outputs_by_key(driver).items()}
    driver.run_until_idle()
    assert_exactly_once(driver, 2 * AUCTIONS, "batch")
    assert {key: len(counts) - before[key] for key, counts in outputs_by_key(driver).items()} == dict.fromkeys(
        before, 1
    )


@pytest.mark.slow
def test_a_crash_at_every_single_call_while_rows_wait_to_be_merged() -> None:
    calls: list[str] = []
    counted = old_backlog()
    counted.kafka.on_call(lambda client, call: calls.append(call) if client == "count-0" else None)
    counted.run_until_idle()
    for number in range(len(calls)):
        driver = old_backlog()
        driver.kafka.fail_next("*", ClientCrashedError("killed"), client="count-0", skip=number)
        while driver.kafka.cluster.faults.pending:
            driver.run_once()
        driver.run_until_idle()
        assert_exactly_once(driver, 2 * AUCTIONS, "batch")
