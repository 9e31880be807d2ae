"""The whole replica on the driver: ownership, restart, input lost, poison, lag, stop."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import structlog

from statemgr.errors import (
    InputLostError,
    ProducerLostError,
    RetryableKafkaError,
    StoreWriteError,
    TopicMismatchError,
)
from statemgr.kafka.ports import TopicSpec
from statemgr.layout import PROGRESS_KEY
from statemgr.progress import decode_progress
from statemgr.testing.kafka import ClientCrashedError, FakeKafka
from statemgr.types import TaskId, TopicPartition
from tests.unit.towpath.stage.plans import (
    APP,
    CHANGELOG,
    DEAD,
    SINK,
    SOURCE,
    assert_exactly_once,
    bids,
    count_stage,
    key_count,
    pass_stage,
    random_auctions,
    reference,
)
from towpath.operators.rows import MapBatches, WithColumns
from towpath.query.plan import OperatorPlan
from towpath.stage.committer import OFFSETS_REFRESH_S
from towpath.stage.phases import Phase
from towpath.testing import StageDriver

GROUP = f"{APP}.count"
AUCTIONS = random_auctions(40, 6)


def counting(rows: list[int] | None = None, **settings: Any) -> StageDriver:
    """One replica of the counting stage, idle after its input."""
    driver = StageDriver(count_stage(), partitions={SOURCE: 2}, **settings)
    driver.pipe(SOURCE, bids(AUCTIONS if rows is None else rows), partition=0)
    driver.run_until_idle()
    return driver


def shown(driver: StageDriver, partition: int = 0, group: str = GROUP) -> int | None:
    found = driver.kafka.cluster.group_offsets.get((group, TopicPartition(SOURCE, partition)))
    return None if found is None else found.offset


def recorded(driver: StageDriver, partition: int = 0) -> int | None:
    """Input position of the last progress record in the changelog."""
    records = [record for record in driver.output(CHANGELOG) if record.key == PROGRESS_KEY]
    last = [record.value for record in records if record.partition == partition][-1:]
    return decode_progress(last[0]).inputs[SOURCE].high if last else None


# --- ownership -------------------------------------------------------------------------------------------------------


def test_more_replicas_than_tasks_are_idle_and_healthy() -> None:
    driver = StageDriver(count_stage(), replicas={"count": 3}, partitions={SOURCE: 1})
    driver.pipe(SOURCE, bids([1, 2, 1]))
    driver.run_until_idle()
    replicas = [driver.process("count", index).replica for index in range(3)]
    assert [sorted(replica.owned) for replica in replicas if replica] == [[0], [], []]
    assert {replica.phase for replica in replicas if replica} == {Phase.RUNNING}


def test_a_fenced_replica_drops_everything_and_goes_on() -> None:
    driver = counting()
    replica = driver.process("count").replica
    assert replica is not None
    before = [task.state for task in replica.owned.values()]
    intruder = driver.kafka.producer(transactional_id=f"{APP}.count.count-0", name="intruder")
    intruder.init_transactions(1.0)
    driver.pipe(SOURCE, bids([1]), partition=0)
    driver.run_once()
    assert (replica.phase, dict(replica.owned)) == (Phase.FENCING, {})
    metrics = driver.process("count").metrics.registry
    labels = {"stage": "count", "replica": "count-0"}
    offset_labels = {**labels, "topic": SOURCE, "partition": "0"}
    assert metrics.get_sample_value("towpath_task_input_offset", offset_labels) is None
    driver.run_until_idle()
    assert metrics.get_sample_value("towpath_producer_lost_total", labels) == 1
    assert not {id(task.state) for task in replica.owned.values()} & set(map(id, before))
    assert_exactly_once(driver, [*AUCTIONS, 1], "each")


def test_what_a_lost_transaction_computed_is_forgotten() -> None:
    driver = counting([1, 1])
    driver.kafka.fail_next("commit", ProducerLostError("fenced"), client="count-0")
    driver.pipe(SOURCE, bids([1, 1, 1]), partition=0)
    driver.run_once()
    assert driver.changelog_state("count", "count") == {b"1": 2}
    driver.run_until_idle()
    assert_exactly_once(driver, [1] * 5, "each")


@pytest.mark.parametrize("call", ["init_transactions", "flush", "produce_batch"])
def test_a_call_without_an_answer_before_its_deadline_ends_ownership_not_the_process(call: str) -> None:
    driver = StageDriver(count_stage(), partitions={SOURCE: 2})
    driver.pipe(SOURCE, bids(AUCTIONS), partition=0)
    driver.kafka.fail_next(call, RetryableKafkaError("no answer"), client="count-0")
    driver.run_until_idle()
    assert_exactly_once(driver, AUCTIONS, "each")


def test_a_broker_that_is_away_for_minutes_is_waited_for() -> None:
    driver = counting()
    for _ in range(200):
        driver.kafka.fail_next("init_transactions", RetryableKafkaError("no broker"), client="count-0")
    driver.kafka.fail_next("commit", ProducerLostError("no broker"), client="count-0")
    driver.kafka.on_call(lambda _, call: driver.advance_time(2000) if call == "init_transactions" else None)
    driver.pipe(SOURCE, bids([1]), partition=0)
    driver.run_until_idle(900.0)
    assert_exactly_once(driver, [*AUCTIONS, 1], "each")


def test_waits_between_two_losses_grow_until_a_commit_succeeds() -> None:
    driver = counting([])
    pauses: list[float] = []
    for _ in range(9):
        driver.kafka.fail_next("commit", ProducerLostError("lost"), client="count-0")
    driver.pipe(SOURCE, bids([1]), partition=0)
    while driver.kafka.cluster.faults.pending:
        before = driver.clock.monotonic_s()
        driver.run_once()
        pauses.append(round(driver.clock.monotonic_s() - before, 3))
    restore_poll_s = 0.25
    assert [pause for pause in pauses if pause not in (0.0, restore_poll_s)] == [
        0.1,
        0.2,
        0.4,
        0.8,
        1.6,
        3.2,
        5.0,
        5.0,
        5.0,
    ]


# --- restart ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
@pytest.mark.parametrize("lose_stores", [False, True])
def test_a_restart_goes_on_with_a_kept_and_with_a_deleted_store(
    backend: Any, lose_stores: bool, tmp_path: Path
) -> None:
    driver = counting(backend=backend, state_dir=tmp_path)
    driver.crash("count", lose_stores=lose_stores)
    driver.pipe(SOURCE, bids([11, 12]), partition=1)
    driver.run_until_idle()
    restored = driver.process("count").metrics.registry.get_sample_value(
        "towpath_restored_records_total", {"stage": "count", "replica": "count-0"}
    )
    assert bool(restored) is lose_stores
    assert driver.state("count", "count") == reference([*AUCTIONS, 11, 12])
    driver.close()


@pytest.mark.parametrize("damaged", ["MANIFEST-*", "*.log", "CURRENT"])
def test_a_corrupted_store_is_rebuilt_from_the_changelog(damaged: str, tmp_path: Path) -> None:
    driver = counting(backend="rocksdb", state_dir=tmp_path)
    driver.crash("count")
    (path,) = (tmp_path / "count-0" / "count" / "0@1").glob(damaged)
    path.write_bytes(b"\x5a" * max(64, path.stat().st_size))
    driver.pipe(SOURCE, bids([1]), partition=0)
    driver.run_until_idle()
    assert_exactly_once(driver, [*AUCTIONS, 1], "each")
    driver.close()


def test_a_changelog_that_was_compacted_restores_the_same_state() -> None:
    driver = counting()
    driver.kafka.compact(CHANGELOG, drop_tombstones=True)
    driver.crash("count", lose_stores=True)
    driver.run_until_idle()
    assert driver.state("count", "count") == reference(AUCTIONS)


def test_a_store_of_a_changelog_that_was_made_anew_is_not_used() -> None:
    driver = counting([1, 1, 1])
    driver.stop("count")
    for topic in (CHANGELOG, SOURCE):
        driver.kafka.recreate(topic)
    driver.pipe(SOURCE, bids([1]), partition=0)
    driver.restart("count")
    driver.run_until_idle()
    assert driver.state("count", "count") == {b"1": 1}


def test_a_store_that_can_not_be_written_stops_the_replica_by_name() -> None:
    driver = counting([])
    driver.process("count").stores.fail_next_write(StoreWriteError("no space left on device"))
    driver.pipe(SOURCE, bids([1]), partition=0)
    with pytest.raises(StoreWriteError, match=r"task count/0 stops: no space left"):
        driver.run_until_idle()
    replica = driver.process("count").replica
    assert replica is not None
    assert replica.phase is Phase.FAILED
    driver.restart("count")
    driver.run_until_idle()
    assert_exactly_once(driver, [1], "each")


def test_latest_stays_the_moment_of_the_first_start() -> None:
    driver = StageDriver(count_stage(), partitions={SOURCE: 2}, start_from="latest")
    driver.pipe(SOURCE, bids([1, 1]), partition=0)
    driver.run_until_idle()
    driver.crash("count", lose_stores=True)
    driver.pipe(SOURCE, bids([2]), partition=0)
    driver.run_until_idle()
    assert driver.state("count", "count") == {b"2": 1}


# --- input -----------------------------------------------------------------------------------------------------------


def test_lost_input_stops_with_the_number_of_records_and_the_remedy() -> None:
    driver = counting([1, 1])
    driver.stop("count")
    driver.pipe(SOURCE, bids([1] * 5), partition=0)
    driver.kafka.delete_records(SOURCE, 0, before=5)
    driver.restart("count")
    with pytest.raises(InputLostError, match=r"bids\[0\] starts at offset 5, .* 2 .* 3 records.*--on-input-loss skip"):
        driver.run_until_idle()


def test_lost_input_can_be_skipped_and_is_counted() -> None:
    driver = counting([1, 1], on_input_loss="skip")
    driver.stop("count")
    driver.pipe(SOURCE, bids([1] * 5), partition=0)
    driver.kafka.delete_records(SOURCE, 0, before=5)
    driver.restart("count")
    driver.run_until_idle()
    assert driver.state("count", "count") == {b"1": 4}
    skipped = driver.process("count").metrics.registry.get_sample_value(
        "towpath_input_lost_records_total", {"stage": "count", "replica": "count-0"}
    )
    assert skipped == 3


@pytest.mark.parametrize("on_input_loss", ["stop", "skip"])
def test_input_that_is_lost_while_the_replica_runs_is_decided_in_the_same_way(on_input_loss: str) -> None:
    driver = counting([1, 1], on_input_loss=on_input_loss)
    driver.pipe(SOURCE, bids([1] * 5), partition=0)
    driver.kafka.delete_records(SOURCE, 0, before=5)
    if on_input_loss == "skip":
        driver.run_until_idle()
        assert_exactly_once(driver, [1] * 4, "each")
    else:
        with pytest.raises(InputLostError, match=r"3 records.*--on-input-loss skip"):
            driver.run_until_idle()


@pytest.mark.parametrize("on_input_loss", ["stop", "skip"])
def test_an_input_that_ends_before_what_was_read_is_a_named_error(on_input_loss: str) -> None:
    driver = counting([1, 1, 1], on_input_loss=on_input_loss)
    driver.stop("count")
    driver.kafka.truncate(SOURCE, 0, records=1)
    driver.restart("count")
    with pytest.raises(InputLostError, match=r"bids\[0\] ends at offset 2, .* read up to 3: .*lost records"):
        driver.run_until_idle()


@pytest.mark.parametrize("on_input_loss", ["stop", "skip"])
def test_an_input_made_anew_is_a_named_error_although_it_is_longer_than_before(on_input_loss: str) -> None:
    driver = counting([1, 1, 1], on_input_loss=on_input_loss)
    driver.stop("count")
    driver.kafka.recreate(SOURCE)
    driver.pipe(SOURCE, bids([1] * 9), partition=0)
    driver.restart("count")
    with pytest.raises(InputLostError, match=r"bids\[0\] was made anew"):
        driver.run_until_idle()


def test_an_input_made_anew_while_the_replica_runs_is_noticed_too() -> None:
    driver = counting([1, 1, 1])
    driver.kafka.recreate(SOURCE)
    driver.pipe(SOURCE, bids([1] * 9), partition=0)
    driver.kafka.fail_next("commit", ProducerLostError("no answer"), client="count-0")
    with pytest.raises(InputLostError, match=r"bids\[0\] was made anew"):
        driver.run_until_idle()


def test_a_sink_made_anew_while_the_replica_runs_is_told() -> None:
    driver = counting([1, 1, 1])
    driver.kafka.recreate(SINK)
    driver.kafka.fail_next("commit", ProducerLostError("no answer"), client="count-0")
    driver.pipe(SOURCE, bids([1]), partition=0)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.NOTSET))
    with structlog.testing.capture_logs() as logs:
        driver.run_until_idle()
    told = [line for line in logs if line["event"].startswith("topic was deleted")]
    assert [line["topic"] for line in told] == [SINK]


def test_a_changelog_made_anew_while_the_replica_runs_voids_the_store() -> None:
    driver = counting([1, 1, 1])
    driver.kafka.recreate(CHANGELOG)
    driver.kafka.fail_next("commit", ProducerLostError("unknown topic id"), client="count-0")
    driver.pipe(SOURCE, bids([1] * 9), partition=0)
    driver.run_until_idle()
    assert driver.state("count", "count") == driver.changelog_state("count", "count") == reference([1] * 12)


def test_retention_of_an_idle_edge_that_was_read_to_its_end_is_no_loss() -> None:
    """The last offset of a transactional input is a marker: once passed, its deletion loses nothing."""
    driver = StageDriver(key_count(partitions=1))
    driver.pipe(SOURCE, bids([1, 2]))
    driver.run_until_idle()
    (edge,) = (item.topic for item in driver.process("count").plan.inputs)
    end = driver.kafka.cluster.log(TopicPartition(edge, 0)).bounds.end
    driver.kafka.delete_records(edge, 0, before=end)
    driver.crash("count", lose_stores=True)
    driver.run_until_idle()
    assert driver.state("count", "count") == reference([1, 2])


# --- bad records -----------------------------------------------------------------------------------------------------

POISON: list[Any] = [b"", b"{", b"\xff", b"[1]", b'{"auction": "x"}', b'{"auction": 1e99}', None]


@pytest.mark.parametrize("takes_s", [0.9, 3.0, 12.0])
def test_rows_that_take_longer_than_a_transaction_may_do_not_stop_progress(takes_s: float) -> None:
    """A dead letter begins the transaction, aborted after 10 s: the batch must not be tried as it was."""
    driver: StageDriver

    def slow(frame: pl.DataFrame) -> pl.DataFrame:
        driver.advance_time(frame.height * takes_s * 1000)
        return frame

    stage = pass_stage(operators=[OperatorPlan("slow", lambda: MapBatches(slow))])
    driver = StageDriver(stage, partitions={SOURCE: 1})
    driver.pipe(SOURCE, [b"no bid", *bids(range(20)), b"no bid", *bids(range(20, 40))], partition=0)
    driver.run_until_idle(3000.0)
    assert [row["auction"] for row in driver.rows(SINK)] == list(range(40))
    assert len(driver.output(DEAD)) == 2


def test_poison_goes_to_the_dead_letter_topic_once_also_across_a_crash() -> None:
    for call, after in (("produce", True), ("flush", False), ("commit", False), ("commit", True)):
        driver = counting([])
        driver.kafka.fail_next(call, ClientCrashedError("killed"), client="count-0", after=after)
        driver.pipe(SOURCE, [{"auction": 1}, *POISON, {"auction": 1}], partition=0)
        driver.run_until_idle()
        letters = driver.output(DEAD)
        assert [letter.value for letter in letters] == POISON
        assert [letter.headers["offset"] for letter in letters] == [str(offset) for offset in range(1, 8)]
        assert {letter.headers["stage"] for letter in letters} == {"count"}
        assert_exactly_once(driver, [1, 1], "each")


def test_a_partition_with_nothing_but_poison_makes_progress() -> None:
    driver = StageDriver(count_stage(), partitions={SOURCE: 2})
    driver.pipe(SOURCE, POISON, partition=0)
    driver.run_until_idle()
    assert (driver.lag("count"), recorded(driver)) == (0, len(POISON))
    driver.crash("count", lose_stores=True)
    driver.run_until_idle()
    assert len(driver.output(DEAD)) == len(POISON)


def test_a_row_without_key_is_set_aside_before_the_edge() -> None:
    driver = StageDriver(key_count())
    driver.pipe(SOURCE, [{"auction": None}, {"auction": 1}, {}], partition=0)
    driver.run_until_idle()
    assert driver.state("count", "count") == {b"1": 1}
    assert [letter.headers["reason"] for letter in driver.output(DEAD)] == ["the key is null: auction"] * 2


def test_a_row_that_is_too_large_for_the_sink_is_set_aside_and_the_rest_is_written() -> None:
    wide = WithColumns([pl.when(pl.col("auction") == 2).then(pl.lit("x" * 1_100_000)).alias("text")])
    driver = StageDriver(pass_stage(operators=[OperatorPlan("wide", lambda: wide)]))
    driver.pipe(SOURCE, bids([1, 2, 3]), partition=0)
    driver.run_until_idle()
    assert [row["auction"] for row in driver.rows(SINK)] == [1, 3]
    (letter,) = driver.output(DEAD)
    assert letter.headers["reason"] == "a row for counts is larger than Kafka accepts"
    assert int(letter.headers["truncated_from_bytes"]) > 1_000_000


# --- topics ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (TopicSpec(CHANGELOG, 8, {"cleanup.policy": "compact"}), r"8 partitions, the stage has 2 tasks.*--delete"),
        (TopicSpec(CHANGELOG, 2, {"cleanup.policy": "delete"}), r"cleanup\.policy=delete, expected exactly compact"),
    ],
)
def test_a_changelog_that_would_lose_state_is_refused_at_start(spec: TopicSpec, text: str) -> None:
    driver = StageDriver(count_stage(), partitions={SOURCE: 2})
    driver.kafka.admin().create([spec], 1, 1.0)
    with pytest.raises(TopicMismatchError, match=text):
        driver.run_until_idle()
    assert driver.kafka.cluster.topics[CHANGELOG].info.partitions == spec.partitions


# --- lag and shown offsets -------------------------------------------------------------------------------------------


def test_lag_reaches_zero_behind_a_transactional_input() -> None:
    driver = StageDriver(key_count(), replicas={"count": 2})
    driver.pipe(SOURCE, bids(AUCTIONS))
    driver.run_until_idle()
    (edge,) = (item.topic for item in driver.process("count").plan.inputs)
    last = [driver.kafka.entries(edge, partition)[-1:] for partition in range(4)]
    assert any(entries and entries[0].control for entries in last)
    assert driver.lag("count") == 0


def test_a_partition_that_never_had_a_record_shows_its_offset_too() -> None:
    driver = counting([])
    driver.run_once()
    assert (shown(driver, 0), shown(driver, 1)) == (0, 0)


def test_a_keyed_stage_shows_its_offsets_once_an_interval() -> None:
    driver = counting([], offsets_interval_ms=5000)
    driver.advance_time(5000)
    driver.run_until_idle()
    for _ in range(3):
        driver.pipe(SOURCE, bids([1]), partition=0)
        driver.run_once()
    first = shown(driver)
    assert first is not None
    assert first < 3 == recorded(driver)
    driver.advance_time(5000)
    driver.run_until_idle()
    assert shown(driver) == 3


def test_a_foreign_change_of_the_shown_offsets_does_not_move_a_keyed_stage() -> None:
    driver = counting([1, 1, 1])
    driver.kafka.set_committed(GROUP, TopicPartition(SOURCE, 0), 0)
    driver.crash("count", lose_stores=True)
    driver.run_until_idle()
    assert_exactly_once(driver, [1, 1, 1], "each")


@pytest.mark.parametrize("stage", ["count", "pass"])
def test_shown_offsets_are_refreshed_before_they_expire(stage: str) -> None:
    driver = StageDriver(count_stage() if stage == "count" else pass_stage(), partitions={SOURCE: 2})
    driver.pipe(SOURCE, bids([1]), partition=0)
    driver.run_until_idle()
    group = f"{APP}.{stage}"
    driver.kafka.set_committed(group, TopicPartition(SOURCE, 0), None)
    driver.advance_time(OFFSETS_REFRESH_S * 1000)
    driver.run_until_idle()
    assert shown(driver, 0, group) == 1


def test_an_idle_query_writes_nothing_more() -> None:
    driver = StageDriver(key_count())
    driver.pipe(SOURCE, bids(AUCTIONS))
    driver.run_until_idle()
    sizes = log_sizes(driver.kafka)
    for _ in range(200):
        driver.run_once()
    assert log_sizes(driver.kafka) == sizes


def log_sizes(kafka: FakeKafka) -> dict[tuple[str, int], int]:
    return {
        (name, number): log.bounds.end
        for name, topic in kafka.cluster.topics.items()
        for number, log in enumerate(topic.logs)
    }


# --- stop ------------------------------------------------------------------------------------------------------------

STOP_AT = {
    "waiting for topics": "describe",
    "fencing": "init_transactions",
    "restoring": "bounds",
    "reading": "consume",
    "producing": "produce",
    "committing": "commit",
}


@pytest.mark.parametrize("call", STOP_AT.values(), ids=STOP_AT)
def test_a_stop_request_in_any_phase_ends_cleanly_and_frees_the_stores(call: str) -> None:
    driver = counting(AUCTIONS[:10])
    driver.crash("count", lose_stores=True)
    driver.pipe(SOURCE, bids(AUCTIONS[10:]), partition=0)
    process = driver.process("count")
    driver.kafka.on_call(lambda _, found: process.ask_to_stop() if found == call else None)
    before = driver.clock.monotonic_s()
    for _ in range(4):
        driver.run_once()
    assert process.replica is not None
    assert process.replica.phase is Phase.STOPPED
    assert driver.clock.monotonic_s() - before < 10.0
    process.stores.open(TaskId("count", 0), 1).close()
    driver.kafka.on_call(None)
    driver.restart()
    driver.run_until_idle()
    assert_exactly_once(driver, AUCTIONS, "each")


def test_a_stop_request_ends_the_wait_for_a_broker_within_seconds() -> None:
    driver = StageDriver(count_stage(), partitions={SOURCE: 2})
    process = driver.process("count")
    for _ in range(100):
        driver.kafka.fail_next("init_transactions", RetryableKafkaError("no broker"), client="count-0")

    def hook(_: str, call: str) -> None:
        if call == "init_transactions":
            driver.advance_time(2000)
            process.ask_to_stop()

    driver.kafka.on_call(hook)
    before = driver.clock.monotonic_s()
    driver.run_once()
    driver.run_once()
    assert process.replica is not None
    assert process.replica.phase is Phase.STOPPED
    assert driver.clock.monotonic_s() - before < 8.0


def test_a_stop_commits_what_is_processed_and_shows_it() -> None:
    driver = counting([], commit_interval_ms=60_000, json_batch_records=2, offsets_interval_ms=60_000)
    driver.pipe(SOURCE, bids([1, 1]), partition=0)
    driver.run_once()
    driver.run_once()
    assert driver.changelog_state("count", "count") == {}
    driver.stop("count")
    assert driver.changelog_state("count", "count") == {b"1": 2}
    assert (shown(driver), recorded(driver)) == (2, 2)


@pytest.mark.parametrize("error", [ProducerLostError("fenced"), RetryableKafkaError("no answer")])
def test_a_last_commit_that_fails_still_ends_cleanly_and_loses_nothing(error: Exception) -> None:
    driver = counting([], commit_interval_ms=60_000, json_batch_records=2)
    driver.pipe(SOURCE, bids([1, 1]), partition=0)
    driver.run_once()
    driver.kafka.fail_next("flush", error, client="count-0")
    driver.stop("count")
    process = driver.process("count")
    assert process.replica is not None
    assert process.replica.phase is Phase.STOPPED
    driver.restart()
    driver.run_until_idle()
    assert_exactly_once(driver, [1, 1], "each")


@pytest.mark.parametrize("call", ["assign", "bounds", "committed"])
def test_an_error_that_needs_a_decision_frees_what_was_opened(call: str) -> None:
    stage = pass_stage() if call == "committed" else count_stage()
    driver = StageDriver(stage, partitions={SOURCE: 2})
    driver.kafka.fail_next(call, InputLostError("gone"))
    with pytest.raises(InputLostError, match="gone"):
        driver.run_until_idle()
    process = driver.process(stage.name)
    assert process.replica is not None
    assert process.replica.phase is Phase.FAILED
    process.stores.open(TaskId(stage.name, 0), 1).close()
