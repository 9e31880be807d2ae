from __future__ import annotations

import pytest

from statemgr.errors import ProducerLostError
from tests.unit.towpath.stage.plans import DEAD, SINK, SOURCE, bids, count_stage, key_count, pass_stage
from towpath.testing import Record, StageDriver, StillBusyError


def test_a_whole_query_runs_to_idle_and_shows_outputs_state_and_lag() -> None:
    driver = StageDriver(key_count(), replicas={"count": 2})
    driver.pipe(SOURCE, bids([7, 7, 9]))
    driver.run_until_idle()
    assert driver.state("count", "count") == {b"7": 2, b"9": 1}
    assert driver.changelog_state("count", "count") == {b"7": 2, b"9": 1}
    assert {row["auction"]: row["count"] for row in driver.rows(SINK)} == {7: 2, 9: 1}
    assert driver.lag("source") == driver.lag("count") == 0


def test_one_stage_runs_alone_on_its_inner_edge() -> None:
    plan = key_count().plan().stage("count")
    driver = StageDriver(plan)
    (edge,) = plan.inputs
    driver.pipe(edge.topic, [{"auction": 1, "__sched_ms": 5}, {"auction": 1, "__sched_ms": 3}], partition=2)
    driver.run_until_idle()
    assert driver.rows(SINK) == [{"auction": 1, "count": 2, "sched_ms": 3, "sched_newest_ms": 5, "events": 2}]


def test_output_has_partition_offset_key_value_and_headers() -> None:
    driver = StageDriver(pass_stage())
    driver.pipe(SOURCE, [{"auction": 4}], partition=1)
    driver.pipe(SOURCE, [b"{"], partition=1, keys=[b"k"])
    driver.run_until_idle()
    assert driver.output(SINK) == [Record(1, 0, None, {"auction": 4}, {})]
    (dead,) = driver.output(DEAD)
    assert (dead.key, dead.value, dead.headers["offset"]) == (b"k", b"{", "1")


def test_an_input_record_may_be_a_dict_text_bytes_or_a_tombstone() -> None:
    driver = StageDriver(pass_stage())
    driver.pipe(SOURCE, [{"auction": 1}, '{"auction": 2}', b'{"auction": 3}', None], partition=0)
    driver.run_until_idle()
    assert driver.rows(SINK) == bids([1, 2, 3])
    assert [record.value for record in driver.output(DEAD)] == [None]


def test_keyed_input_goes_where_java_puts_it_and_keyless_input_takes_turns() -> None:
    driver = StageDriver(pass_stage(), partitions={SOURCE: 2})
    driver.pipe(SOURCE, bids([1, 1, 1, 1]), keys=[b"21"] * 4)
    driver.pipe(SOURCE, bids([2, 2, 2, 2]))
    sizes = {len(driver.kafka.entries(SOURCE, partition)) for partition in (0, 1)}
    assert sizes == {2, 6}


def test_an_unknown_topic_or_table_is_named_with_those_there_are() -> None:
    driver = StageDriver(count_stage())
    with pytest.raises(LookupError, match="no stage reads topic 'bid'; inputs: bids"):
        driver.pipe("bid", [])
    with pytest.raises(LookupError, match="has no table 'counts'; its tables: count"):
        driver.state("count", "counts")


def test_a_topic_that_does_not_exist_has_no_output() -> None:
    assert StageDriver(pass_stage()).output("nothing") == []


def test_rocksdb_needs_a_directory() -> None:
    with pytest.raises(ValueError, match="needs state_dir"):
        StageDriver(count_stage(), backend="rocksdb")


def test_what_never_becomes_idle_is_explained() -> None:
    driver = StageDriver(count_stage())
    driver.kafka.on_call(lambda _client, call: _lose() if call == "commit" else None)
    driver.pipe(SOURCE, bids([1]))
    with pytest.raises(StillBusyError, match=r"not idle after 30 s: count-0 is .*lag"):
        driver.run_until_idle(30.0)


def _lose() -> None:
    raise ProducerLostError("always")


def test_a_stopped_replica_keeps_its_lag_until_it_is_restarted() -> None:
    driver = StageDriver(count_stage())
    driver.run_until_idle()
    driver.stop("count")
    driver.pipe(SOURCE, bids([1, 1, 1]))
    driver.run_until_idle()
    assert driver.lag("count") == 3
    driver.restart("count")
    driver.run_until_idle()
    assert driver.lag("count") == 0


def test_a_clock_moves_only_by_waits_and_by_order() -> None:
    driver = StageDriver(pass_stage())
    before = driver.clock.wall_ms()
    driver.advance_time(1500)
    assert driver.clock.wall_ms() == before + 1500


def test_closing_the_driver_frees_every_store(tmp_path) -> None:
    for _ in range(2):
        driver = StageDriver(count_stage(), backend="rocksdb", state_dir=tmp_path)
        driver.pipe(SOURCE, bids([1]))
        driver.run_until_idle()
        driver.close()


def test_a_key_in_the_state_of_two_tasks_is_never_hidden() -> None:
    driver = StageDriver(count_stage(), partitions={SOURCE: 2})
    driver.pipe(SOURCE, bids([7, 7]))
    driver.run_until_idle()
    with pytest.raises(AssertionError, match="b'7' is in the state of two tasks"):
        driver.state("count", "count")


def test_the_environment_does_not_change_what_a_driver_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_START_FROM", "latest")
    driver = StageDriver(count_stage(), partitions={SOURCE: 1})
    driver.pipe(SOURCE, bids([7]))
    driver.run_until_idle()
    assert driver.state("count", "count") == {b"7": 1}
