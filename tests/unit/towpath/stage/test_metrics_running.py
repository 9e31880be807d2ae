"""Every figure of a replica, as running stages in memory show it."""

from __future__ import annotations

import polars as pl
import pytest

from statemgr.errors import ProducerLostError
from statemgr.testing.kafka import ManualClock
from tests.unit.towpath.stage.figures_of import figure, labels_of
from tests.unit.towpath.stage.plans import SINK, SOURCE, bids, count_stage, key_count
from towpath.distributions import SAMPLES
from towpath.query import Query, tumbling
from towpath.stage.standing import LOOK_S, SIZE_EVERY
from towpath.testing import StageDriver

AUCTIONS = [1, 2, 3, 1, 2, 1]


def driver_of(**settings: object) -> StageDriver:
    return StageDriver(count_stage(), partitions={SOURCE: 2}, replicas={"count": 1}, **settings)


def shown(driver: StageDriver, name: str, stage: str = "count", **labels: str) -> float | None:
    return figure(driver.process(stage).metrics.registry, name, **labels)


def look(driver: StageDriver, looks: int = 1) -> None:
    """Let the replica look at its tasks so often."""
    for _ in range(looks):
        driver.advance_time(LOOK_S * 1000)
        driver.run_once()


def test_rows_and_records_in_and_out_are_counted_also_where_a_record_has_many_rows() -> None:
    driver = StageDriver(key_count(emit="each"), partitions={SOURCE: 2})
    driver.pipe(SOURCE, bids(AUCTIONS))
    driver.run_until_idle()
    assert shown(driver, "towpath_records_total", "source") == len(AUCTIONS)
    assert shown(driver, "towpath_rows_total", "source") == len(AUCTIONS)
    edge = labels_of(driver.process("source").metrics.registry, "towpath_output_rows_total", "topic")
    assert len(edge) == 1
    records, rows = shown(driver, "towpath_records_total"), shown(driver, "towpath_rows_total")
    assert records is not None
    assert records < len(AUCTIONS)
    assert rows == shown(driver, "towpath_output_rows_total", "source", topic=edge.pop())
    assert shown(driver, "towpath_output_rows_total", topic=SINK) == len(AUCTIONS)
    written = [entry for partition in range(4) for entry in driver.kafka.entries(SINK, partition) if entry.value]
    produced = sum(len(entry.key or b"") + len(entry.value or b"") for entry in written)
    assert shown(driver, "towpath_output_bytes_total", topic=SINK) == produced


def test_a_row_that_is_too_large_for_its_sink_is_not_counted_as_written() -> None:
    query = Query("large")
    query.source(SOURCE, schema={"text": pl.String}).sink(SINK)
    driver = StageDriver(query, partitions={SOURCE: 1, SINK: 1})
    driver.pipe(SOURCE, [{"text": "x" * 1_000_000}, {"text": "short"}])
    driver.run_until_idle()
    assert shown(driver, "towpath_output_rows_total", "source", topic=SINK) == 1
    assert shown(driver, "towpath_dead_letters_total", "source") == 1


def test_a_stages_latency_is_from_append_to_commit() -> None:
    driver = driver_of(commit_interval_ms=10_000)
    driver.run_until_idle()
    driver.pipe(SOURCE, bids(AUCTIONS))
    driver.advance_time(2000)
    driver.run_until_idle()
    assert shown(driver, "towpath_stage_latency_seconds_count") == len(AUCTIONS)
    assert shown(driver, "towpath_stage_latency_seconds_bucket", le="1.0") == 0
    total = shown(driver, "towpath_stage_latency_seconds_sum")
    assert total is not None
    assert total >= 2.0 * len(AUCTIONS)


def test_what_is_not_committed_has_no_latency() -> None:
    driver = driver_of()
    driver.run_until_idle()
    driver.kafka.fail_next("commit", ProducerLostError("fenced"), client="count-0")
    driver.pipe(SOURCE, bids(AUCTIONS))
    while not shown(driver, "towpath_producer_lost_total"):
        driver.run_once()
    assert not shown(driver, "towpath_stage_latency_seconds_count")
    driver.run_until_idle()
    assert shown(driver, "towpath_stage_latency_seconds_count") == len(AUCTIONS)


def test_of_a_large_batch_some_records_stand_for_all() -> None:
    driver = driver_of()
    rows = 40 * SAMPLES
    driver.pipe(SOURCE, bids([7] * rows), partition=0)
    driver.run_until_idle()
    counted = shown(driver, "towpath_stage_latency_seconds_count")
    assert counted is not None
    assert rows <= counted < 1.1 * rows


def test_end_to_end_is_from_the_meant_emit_time_of_the_oldest_event_to_the_commit_of_a_sinks_row() -> None:
    clock = ManualClock()
    query = Query("timed")
    rows = query.source(SOURCE, schema={"auction": pl.Int64}, emit_time="sched_ms")
    rows.key_by("auction").stage("count").count(emit="each").sink(SINK, key="auction")
    driver = StageDriver(query, partitions={SOURCE: 1}, clock=clock)
    driver.run_until_idle()
    now_ms = clock.wall_ms()
    driver.pipe(SOURCE, [{"auction": 1, "sched_ms": now_ms - 4000}, {"auction": 1, "sched_ms": now_ms}])
    driver.run_until_idle()
    assert shown(driver, "towpath_end_to_end_latency_seconds_count", topic=SINK) == 2
    slow = [shown(driver, "towpath_end_to_end_latency_seconds_bucket", topic=SINK, le=le) for le in ("2.5", "5.0")]
    assert slow == [1, 2]
    assert shown(driver, "towpath_end_to_end_latency_seconds_count", "source") is None


def test_where_no_emit_time_is_known_there_is_no_end_to_end_latency() -> None:
    driver = driver_of()
    driver.pipe(SOURCE, bids(AUCTIONS))
    driver.run_until_idle()
    assert shown(driver, "towpath_end_to_end_latency_seconds_count") is None


def test_time_in_an_operator_is_a_histogram_of_batches() -> None:
    driver = driver_of()
    driver.pipe(SOURCE, bids(AUCTIONS), partition=0)
    driver.run_until_idle()
    batches = shown(driver, "towpath_operator_seconds_count", operator="count")
    busy = shown(driver, "towpath_operator_busy_seconds_total", operator="count")
    assert batches is not None
    assert batches >= 1
    assert shown(driver, "towpath_operator_seconds_sum", operator="count") == pytest.approx(busy)


def test_lag_is_what_is_not_read_and_committed_lag_what_is_not_committed() -> None:
    driver = driver_of(json_batch_records=64 * 2)
    driver.run_until_idle()
    driver.pipe(SOURCE, bids([5] * 10), partition=0)
    names = ("towpath_task_lag_records", "towpath_task_committed_lag_records")
    seen = []
    for _ in range(200):
        look(driver)
        lags = tuple(shown(driver, name, topic=SOURCE, partition="0") for name in names)
        if lags[0] is not None and lags not in seen:
            seen.append(lags)
    assert all(committed >= read for read, committed in seen if committed is not None and read is not None)
    assert seen[-1] == (0, 0)
    assert max(committed or 0 for _, committed in seen) > 0


def test_the_committed_lag_does_not_fall_before_the_commit() -> None:
    driver = driver_of()
    driver.run_until_idle()
    driver.kafka.fail_next("commit", ProducerLostError("no answer"), client="count-0")
    driver.pipe(SOURCE, bids([5] * 10), partition=0)
    driver.run_once()
    replica = driver.process("count").replica
    assert replica is not None
    task = replica.owned.get(0)
    assert task is None or task.committed[SOURCE] == 0
    driver.run_until_idle()
    look(driver, 2)
    assert shown(driver, "towpath_task_committed_lag_records", topic=SOURCE, partition="0") == 0


def test_watermark_lag_is_of_the_clock_and_is_not_there_before_the_first_mark() -> None:
    clock = ManualClock()
    query = Query("app")
    rows = query.source("in", schema={"k": pl.Int64, "t": pl.Int64}, event_time="t", lag_ms=1000)
    rows.key_by("k").stage("count").window(tumbling(10_000), on="t").count().sink("out", key="k")
    driver = StageDriver(query, partitions={"in": 1}, clock=clock)
    driver.run_until_idle()
    look(driver)
    assert shown(driver, "towpath_watermark_lag_seconds", "source") is None
    driver.pipe("in", [{"k": 1, "t": clock.wall_ms()}])
    driver.run_until_idle()
    look(driver)
    lag = shown(driver, "towpath_watermark_lag_seconds", "source", partition="0")
    assert lag is not None
    assert 1.0 <= lag < 10.0
    driver.advance_time(60_000)
    driver.run_once()
    later = shown(driver, "towpath_watermark_lag_seconds", "source", partition="0")
    assert later is not None
    assert later > lag + 59


def test_a_stage_without_event_time_has_no_watermark_lag() -> None:
    driver = driver_of()
    driver.pipe(SOURCE, bids(AUCTIONS))
    driver.run_until_idle()
    look(driver)
    assert shown(driver, "towpath_watermark_lag_seconds") is None


@pytest.mark.parametrize("backend", ["memory", "rocksdb"])
def test_sizes_of_stores_are_shown(backend: str, tmp_path) -> None:
    driver = StageDriver(
        count_stage(), replicas={"count": 1}, partitions={SOURCE: 1}, backend=backend, state_dir=tmp_path
    )
    driver.pipe(SOURCE, bids(range(500)))
    driver.run_until_idle()
    look(driver, SIZE_EVERY + 1)
    entries = shown(driver, "towpath_state_entries", partition="0")
    size = shown(driver, "towpath_state_bytes", partition="0")
    assert entries is not None
    assert 500 <= entries <= 510  # and the store's own records
    assert size is not None
    assert size > 500 * 5
    driver.close()


def test_keys_found_in_the_cache_and_read_from_the_store_are_counted() -> None:
    driver = driver_of()
    driver.pipe(SOURCE, bids([1, 2, 3]), partition=0)
    driver.run_until_idle()
    driver.pipe(SOURCE, bids([1, 2, 3, 4]), partition=0)
    driver.run_until_idle()
    look(driver)
    assert shown(driver, "towpath_cache_misses_total", table="count") == 4
    assert shown(driver, "towpath_cache_hits_total", table="count") == 3
    assert shown(driver, "towpath_cache_entries") == 4


def test_uncommitted_entries_are_shown() -> None:
    driver = driver_of(commit_interval_ms=60_000, json_batch_records=64)
    driver.run_until_idle()
    driver.pipe(SOURCE, bids(range(300)), partition=0)
    seen = set()
    for _ in range(60):
        look(driver)
        seen.add(shown(driver, "towpath_dirty_entries"))
    assert seen >= {0.0}
    driver.run_until_idle()
    look(driver)
    assert shown(driver, "towpath_dirty_entries") == 0


def test_commits_are_counted_with_their_time() -> None:
    driver = driver_of()
    driver.pipe(SOURCE, bids(AUCTIONS))
    driver.run_until_idle()
    commits = shown(driver, "towpath_commits_total")
    assert commits is not None
    assert commits >= 1
    assert shown(driver, "towpath_commit_seconds_count") == commits


def test_memory_and_processor_time_of_the_process_are_shown_with_its_labels() -> None:
    driver = driver_of()
    for name in ("process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds"):
        found = shown(driver, name, stage="count", replica="count-0")
        assert found is not None
        assert found > 0


def test_series_of_tasks_go_with_the_tasks() -> None:
    driver = driver_of()
    driver.pipe(SOURCE, bids(AUCTIONS))
    driver.run_until_idle()
    look(driver, 2)
    assert shown(driver, "towpath_task_lag_records") is not None
    replica = driver.process("count").replica
    assert replica is not None
    replica.drop("a test")
    of_tasks = ("lag_records", "committed_lag_records", "input_offset")
    assert [shown(driver, f"towpath_task_{name}") for name in of_tasks] == [None, None, None]
    assert [shown(driver, f"towpath_state_{name}") for name in ("bytes", "entries")] == [None, None]
