"""What the in-memory Kafka does beyond the contract that it shares with a real broker."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemgr.errors import (
    InputLostError,
    KafkaUnavailableError,
    ProducerLostError,
    RetryableKafkaError,
    TopicMissingError,
)
from statemgr.kafka.ports import Bounds, Committed, TopicSpec
from statemgr.testing.clock import ManualClock
from statemgr.testing.faults import ANY, ClientCrashedError
from statemgr.testing.kafka import FakeKafka
from statemgr.testing.producer import FakeProducer
from statemgr.types import TopicPartition

AT = TopicPartition("t", 0)


def cluster(marker_lag_s: float = 0.0, **config: str) -> FakeKafka:
    kafka = FakeKafka(marker_lag_s=marker_lag_s)
    settings = {name.replace("_", "."): value for name, value in config.items()}
    kafka.admin().create([TopicSpec("t", 2, settings)], 1, 1)
    return kafka


def writer(kafka: FakeKafka, name: str = "w") -> FakeProducer:
    producer = kafka.producer(transactional_id=f"id-{name}", name=name)
    producer.init_transactions(1)
    return producer


def commit(producer: FakeProducer, *pairs: tuple[bytes, bytes | None]) -> None:
    producer.begin()
    for key, value in pairs:
        producer.produce("t", 0, key, value)
    producer.commit(1)


def visible(kafka: FakeKafka, start: int = 0) -> list[bytes | None]:
    consumer = kafka.consumer(name="r")
    consumer.assign({AT: start})
    return [message.value() for message in consumer.consume(1000, 0)]


# --- time ------------------------------------------------------------------------------------------------------------


def test_a_consumer_that_finds_nothing_moves_the_clock_instead_of_waiting() -> None:
    kafka = cluster()
    consumer = kafka.consumer(name="r")
    consumer.assign({AT: 0})
    assert not consumer.consume(10, 2.5)
    assert kafka.clock.monotonic_s() == 2.5
    commit(writer(kafka), (b"k", b"v"))
    assert len(consumer.consume(10, 2.5)) == 1
    assert kafka.clock.monotonic_s() == 2.5


def test_records_carry_the_time_of_the_injected_clock() -> None:
    kafka = cluster(message_timestamp_type="LogAppendTime")
    kafka.clock.advance(1.5)
    commit(writer(kafka), (b"k", b"v"))
    consumer = kafka.consumer(name="r")
    consumer.assign({AT: 0})
    assert consumer.consume(1, 0)[0].timestamp() == (2, ManualClock().wall_ms() + 1500)


def test_an_open_transaction_is_aborted_after_its_time_out_and_its_producer_fenced() -> None:
    kafka = cluster()
    slow, other = writer(kafka, "slow"), writer(kafka, "other")
    slow.begin()
    slow.produce("t", 0, b"k", b"slow")
    commit(other, (b"k", b"fast"))
    kafka.clock.advance(9.9)
    assert visible(kafka) == []
    kafka.clock.advance(0.1)
    assert visible(kafka) == [b"fast"]
    with pytest.raises(ProducerLostError, match="fenced"):
        slow.commit(1)


def test_a_transaction_that_wrote_nothing_has_no_time_out() -> None:
    kafka = cluster()
    producer = writer(kafka)
    producer.begin()
    kafka.clock.advance(100)
    producer.produce("t", 0, b"k", b"v")
    producer.commit(1)
    assert visible(kafka) == [b"v"]


def test_a_clock_goes_back_only_when_the_wall_clock_is_set() -> None:
    clock = ManualClock(1000)
    clock.advance(1)
    clock.jump_wall(-5)
    assert (clock.wall_ms(), clock.monotonic_s()) == (-3000, 1)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1)


# --- marker lag ------------------------------------------------------------------------------------------------------


def test_readers_can_see_a_commit_later_than_its_answer() -> None:
    """R6: right after the commit the last stable offset is stale."""
    kafka = cluster(marker_lag_s=0.5)
    producer = writer(kafka)
    commit(producer, (b"k", b"v"))
    assert visible(kafka) == []
    assert kafka.consumer(name="r").bounds(AT, 1) == Bounds(0, 1)
    kafka.clock.advance(0.5)
    assert visible(kafka) == [b"v"]
    assert kafka.consumer(name="r").bounds(AT, 1) == Bounds(0, 2)


@pytest.mark.parametrize("how", ["settle", "next transaction", "newer producer"])
def test_late_markers_are_written_before_what_follows(how: str) -> None:
    kafka = cluster(marker_lag_s=60)
    producer = writer(kafka)
    commit(producer, (b"k", b"first"))
    if how == "settle":
        kafka.settle()
    elif how == "next transaction":
        producer.begin()
        producer.produce("t", 0, b"k", b"second")
    else:
        writer(kafka)
    assert visible(kafka) == [b"first"]


def test_committed_offsets_are_waited_for_until_they_are_stable() -> None:
    kafka = cluster(marker_lag_s=0.5)
    producer = writer(kafka)
    producer.begin()
    producer.send_offsets({AT: (5, "m")}, "g", 1)
    consumer = kafka.consumer(name="r")
    with pytest.raises(KafkaUnavailableError, match="not stable after 1 s"):
        consumer.committed("g", [AT], 1)
    producer.commit(1)
    assert consumer.committed("g", [AT], 1) == {AT: Committed(5, "m")}


# --- faults ----------------------------------------------------------------------------------------------------------


def test_a_planned_error_comes_once_and_before_the_effect() -> None:
    kafka = cluster()
    producer = writer(kafka)
    producer.begin()
    producer.produce("t", 0, b"k", b"v")
    kafka.fail_next("flush", RetryableKafkaError("busy"))
    with pytest.raises(RetryableKafkaError, match="busy"):
        producer.flush(1)
    producer.flush(1)
    kafka.fail_next("commit", ProducerLostError("gone"), client="w")
    with pytest.raises(ProducerLostError, match="gone"):
        producer.commit(1)
    writer(kafka)
    assert visible(kafka) == []


def test_a_commit_can_be_applied_while_its_answer_is_lost() -> None:
    kafka = cluster()
    producer = writer(kafka)
    producer.begin()
    producer.produce("t", 0, b"k", b"v")
    kafka.fail_next("commit", ProducerLostError("no answer"), after=True)
    with pytest.raises(ProducerLostError, match="no answer"):
        producer.commit(1)
    with pytest.raises(ProducerLostError, match="no answer"):
        producer.begin()
    assert visible(kafka) == [b"v"]


def test_a_fault_waits_for_its_client_and_lets_calls_pass_first() -> None:
    kafka = cluster()
    kafka.fail_next("consume", KafkaUnavailableError("down"), client="b", skip=1)
    a, b = kafka.consumer(name="a"), kafka.consumer(name="b")
    a.consume(1, 0)
    b.consume(1, 0)
    with pytest.raises(KafkaUnavailableError, match="down"):
        b.consume(1, 0)
    b.consume(1, 0)
    assert kafka.cluster.faults.pending == ()


def test_a_crashed_client_is_dead_and_its_transaction_stays_open_until_it_times_out() -> None:
    kafka = cluster()
    producer, other = writer(kafka, "victim"), writer(kafka, "other")
    producer.begin()
    producer.produce("t", 0, b"k", b"lost")
    kafka.crash("victim")
    with pytest.raises(ClientCrashedError, match="victim is dead and called commit"):
        producer.commit(1)
    commit(other, (b"k", b"kept"))
    assert visible(kafka) == []
    kafka.clock.advance(10)
    assert visible(kafka) == [b"kept"]


def test_a_crash_can_be_planned_at_any_step_and_the_name_used_again() -> None:
    kafka = cluster()
    kafka.fail_next(ANY, ClientCrashedError("here"), client="w", skip=2)
    producer = writer(kafka)
    producer.begin()
    with pytest.raises(ClientCrashedError, match="here"):
        producer.produce("t", 0, b"k", b"v")
    with pytest.raises(ClientCrashedError):
        kafka.consumer(name="w").consume(1, 0)
    kafka.restart("w")
    commit(writer(kafka), (b"k", b"again"))
    assert visible(kafka) == [b"again"]


def test_no_recovery_code_can_catch_a_crash_as_an_ordinary_error() -> None:
    assert not issubclass(ClientCrashedError, Exception)


def test_a_hook_sees_every_call() -> None:
    kafka = cluster()
    seen: list[tuple[str, str]] = []
    kafka.on_call(lambda client, call: seen.append((client, call)))
    commit(writer(kafka), (b"k", b"v"))
    assert seen == [("w", call) for call in ("init_transactions", "begin", "produce", "commit")]


# --- the log ---------------------------------------------------------------------------------------------------------


def test_compaction_keeps_the_last_value_of_each_key_and_all_offsets_stay() -> None:
    kafka = cluster(cleanup_policy="compact")
    producer = writer(kafka)
    commit(producer, (b"a", b"1"), (b"b", b"1"), (b"a", b"2"))
    commit(producer, (b"b", None))
    kafka.compact("t")
    assert [(each.offset, each.key, each.value) for each in kafka.entries("t", 0)] == [(2, b"a", b"2"), (4, b"b", None)]
    consumer = kafka.consumer(name="r")
    consumer.assign({AT: 0})
    assert [each.offset() for each in consumer.consume(10, 0)] == [2, 4]
    assert consumer.position(AT) == consumer.bounds(AT, 1).end == 6
    kafka.compact("t", drop_tombstones=True)
    assert [each.offset for each in kafka.entries("t", 0)] == [2]


def test_compaction_leaves_what_is_behind_an_open_transaction() -> None:
    kafka = cluster(cleanup_policy="compact")
    slow, other = writer(kafka, "slow"), writer(kafka, "other")
    commit(other, (b"a", b"1"))
    slow.begin()
    slow.produce("t", 0, b"a", b"2")
    commit(other, (b"a", b"3"))
    kafka.compact("t")
    assert [each.value for each in kafka.entries("t", 0) if not each.control] == [b"1", b"2", b"3"]
    slow.abort(1)
    kafka.compact("t")
    assert [each.value for each in kafka.entries("t", 0)] == [b"3"]


def test_truncation_loses_the_last_offsets_and_a_reader_behind_them_is_told() -> None:
    kafka = cluster()
    commit(writer(kafka), (b"a", b"1"), (b"b", b"2"))
    consumer = kafka.consumer(name="r")
    consumer.assign({AT: 0})
    consumer.consume(10, 0)
    kafka.truncate("t", 0, 2)
    assert consumer.bounds(AT, 1) == Bounds(0, 1)
    with pytest.raises(InputLostError, match="offset 3 can't be read, the log holds 0 … 1"):
        consumer.consume(10, 0)
    assert visible(kafka) == [b"1"]


def test_truncating_an_open_transaction_away_lets_readers_go_on() -> None:
    kafka = cluster()
    slow, other = writer(kafka, "slow"), writer(kafka, "other")
    slow.begin()
    slow.produce("t", 0, b"k", b"lost")
    kafka.truncate("t", 0, 1)
    commit(other, (b"k", b"kept"))
    assert visible(kafka) == [b"kept"]


def test_a_topic_made_anew_is_empty_and_has_another_id() -> None:
    kafka = cluster(cleanup_policy="compact")
    commit(writer(kafka), (b"k", b"v"))
    before = kafka.admin().describe(["t"], 1)["t"]
    kafka.recreate("t")
    after = kafka.admin().describe(["t"], 1)["t"]
    assert after.topic_id != before.topic_id
    assert (after.partitions, after.config) == (before.partitions, before.config)
    assert visible(kafka) == []


def test_a_deleted_topic_is_missing_for_readers_and_writers() -> None:
    kafka = cluster()
    producer, consumer = writer(kafka), kafka.consumer(name="r")
    consumer.assign({AT: 0})
    producer.begin()
    producer.produce("t", 0, b"k", b"v")
    kafka.delete_topic("t")
    with pytest.raises(TopicMissingError):
        consumer.consume(1, 0)
    producer.produce("t", 0, b"k", b"v")
    with pytest.raises(ProducerLostError, match="does not exist"):
        producer.commit(1)


def test_somebody_outside_can_change_a_groups_offset_or_let_it_expire() -> None:
    kafka = cluster()
    consumer = kafka.consumer(name="r")
    kafka.set_committed("g", AT, 7, "x")
    assert consumer.committed("g", [AT], 1) == {AT: Committed(7, "x")}
    kafka.set_committed("g", AT, None)
    assert consumer.committed("g", [AT], 1) == {AT: Committed(None, "")}


def test_partitions_take_turns_in_being_first() -> None:
    kafka = cluster()
    producer = writer(kafka)
    producer.begin()
    for number in range(8):
        producer.produce("t", number % 2, b"k", b"v")
    producer.commit(1)
    consumer = kafka.consumer(name="r")
    consumer.assign({AT: 0, TopicPartition("t", 1): 0})
    assert [consumer.consume(1, 0)[0].partition() for _ in range(4)] == [0, 1, 0, 1]


# --- against a model -------------------------------------------------------------------------------------------------

OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 2), st.sampled_from([b"a", b"b", b"c"]), st.booleans()),
        st.tuples(st.sampled_from(["commit", "abort"]), st.integers(0, 2)),
        st.tuples(st.just("compact")),
    ),
    max_size=40,
)


@given(OPERATIONS)
def test_a_reader_sees_committed_records_in_order_and_compaction_never_changes_the_last_values(
    operations: list[tuple[object, ...]],
) -> None:
    kafka = cluster(cleanup_policy="compact")
    producers = [writer(kafka, str(number)) for number in range(3)]
    open_: dict[int, list[int]] = {}
    written: dict[int, tuple[bytes, bytes | None]] = {}
    committed: set[int] = set()
    offset = 0
    for operation in operations:
        if operation[0] == "compact":
            kafka.compact("t")
            continue
        number = operation[1]
        assert isinstance(number, int)
        producer = producers[number]
        if operation[0] == "write":
            if number not in open_:
                producer.begin()
                open_[number] = []
            key = operation[2]
            assert isinstance(key, bytes)
            value = None if operation[3] else str(offset).encode()
            producer.produce("t", 0, key, value)
            written[offset] = (key, value)
            open_[number].append(offset)
            offset += 1
        elif number in open_:
            offsets = open_.pop(number)
            if operation[0] == "commit":
                producer.commit(1)
                committed.update(offsets)
            else:
                producer.abort(1)
            offset += 1
    stable = min((first for offsets in open_.values() for first in offsets), default=offset)
    consumer = kafka.consumer(name="r")
    consumer.assign({AT: 0})
    seen = consumer.consume(1000, 0)
    offsets_seen = [each.offset() for each in seen]
    expected = [at for at in sorted(committed) if at < stable]
    assert offsets_seen == sorted(set(offsets_seen))
    assert set(offsets_seen) <= set(expected)
    assert consumer.position(AT) == stable
    assert {each.key(): each.value() for each in seen} == dict(written[at] for at in expected)
    assert consumer.bounds(AT, 1) == Bounds(0, offset)
