"""What every implementation of the Kafka interfaces does: the in-memory one and librdkafka on a real broker."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import pytest
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient

from statemgr.errors import (
    InputLostError,
    ProducerLostError,
    RecordTooLargeError,
    TopicMismatchError,
    TopicMissingError,
)
from statemgr.kafka.confluent import ConfluentKafka
from statemgr.kafka.consumer import ConfluentConsumer
from statemgr.kafka.ports import Bounds, Committed, Consumer, Kafka, Message, Producer, TopicSpec
from statemgr.kafka.settings import MAX_RECORD_BYTES, log
from statemgr.partitioner import partition_of
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TopicPartition
from towpath_native import WHY_NOT

WAIT_S = 10.0
"""How long a record may take that must come."""

QUIET_S = 0.2
"""How long to look for a record that must not come: four times the longest fetch wait."""


class Rig(Protocol):
    """A Kafka under test, and what the interfaces can't do."""

    kafka: Kafka
    producers: list[Producer]

    def delete_records(self, partition: TopicPartition, before: int) -> None: ...
    def delete_topic(self, topic: str) -> None: ...


class FakeRig:
    def __init__(self) -> None:
        self.fake = FakeKafka()
        self.kafka: Kafka = self.fake
        self.producers: list[Producer] = []

    def delete_records(self, partition: TopicPartition, before: int) -> None:
        self.fake.delete_records(*partition, before)

    def delete_topic(self, topic: str) -> None:
        self.fake.delete_topic(topic)


class ColumnKafka(ConfluentKafka):
    """All consumers read columns."""

    def consumer(self, *, read_committed: bool = True, columns: bool = True, name: str) -> ConfluentConsumer:
        return super().consumer(read_committed=read_committed, columns=columns, name=name)


class RealRig:
    def __init__(self, bootstrap: str, kind: type[ConfluentKafka]) -> None:
        self.kafka: Kafka = kind(bootstrap)
        self.producers: list[Producer] = []
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "logger": log})

    def delete_records(self, partition: TopicPartition, before: int) -> None:
        for future in self._admin.delete_records([ClientPartition(*partition, before)]).values():
            future.result(WAIT_S)

    def delete_topic(self, topic: str) -> None:
        for future in self._admin.delete_topics([topic]).values():
            future.result(WAIT_S)


@pytest.fixture(scope="module")
def rigs() -> dict[str, Rig]:
    return {}


KINDS = {"real": ConfluentKafka, "columns": ColumnKafka}


@pytest.fixture(params=["fake", *(pytest.param(kind, marks=pytest.mark.broker) for kind in KINDS)])
def rig(request: pytest.FixtureRequest, rigs: dict[str, Rig]) -> Rig:
    kind = request.param
    if kind == "fake":
        return FakeRig()
    if kind == "columns" and WHY_NOT is not None:
        pytest.skip(WHY_NOT)
    if kind not in rigs:
        rigs[kind] = RealRig(request.getfixturevalue("broker").bootstrap, KINDS[kind])
    return rigs[kind]


@pytest.fixture
def kafka(rig: Rig) -> Kafka:
    return rig.kafka


@pytest.fixture
def topic(kafka: Kafka) -> str:
    return make_topic(kafka, 2)


@pytest.fixture
def producer(rig: Rig) -> Iterator[Producer]:
    """A transactional producer that stands between transactions; reused, since the first start costs 0.5 s."""
    if not rig.producers:
        rig.producers.append(started(rig.kafka, unique("tx")))
    producer = rig.producers[0]
    yield producer
    try:
        producer.begin()
        producer.abort(WAIT_S)
    except ProducerLostError:
        producer.close()
        rig.producers.clear()


@pytest.fixture
def consumer(kafka: Kafka) -> Iterator[Consumer]:
    consumer = kafka.consumer(name="reader")
    yield consumer
    consumer.close()


def unique(stem: str) -> str:
    return f"{stem}-{uuid.uuid4().hex[:8]}"


def make_topic(kafka: Kafka, partitions: int, config: Mapping[str, str] | None = None) -> str:
    name = unique("contract")
    kafka.admin().create([TopicSpec(name, partitions, config or {})], 1, WAIT_S)
    return name


def started(kafka: Kafka, transactional_id: str) -> Producer:
    producer = kafka.producer(transactional_id=transactional_id, name="writer")
    producer.init_transactions(WAIT_S)
    return producer


def write(producer: Producer, topic: str, partition: int, values: Sequence[bytes]) -> None:
    for value in values:
        producer.produce(topic, partition, b"key", value)


def commit(producer: Producer, topic: str, partition: int, values: Sequence[bytes]) -> None:
    producer.begin()
    write(producer, topic, partition, values)
    producer.commit(WAIT_S)


def read(consumer: Consumer, count: int) -> list[Message]:
    """Exactly ``count`` records, or a failure that says what came."""
    found: list[Message] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.consume(count - len(found), 0.1)
    assert len(found) == count, f"{len(found)} of {count} records came: {[each.value() for each in found]}"
    return found


def values(messages: Sequence[Message]) -> list[bytes | None]:
    return [message.value() for message in messages]


def until_raised(error: type[Exception], call: Callable[[], object]) -> Exception:
    """Repeat a call that reports an error of the background sooner or later."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            call()
        except error as raised:
            return raised
    pytest.fail(f"no {error.__name__} within {WAIT_S} s")


# --- records ---------------------------------------------------------------------------------------------------------


def test_records_keep_their_order_in_each_explicit_partition(
    kafka: Kafka, topic: str, producer: Producer, consumer: Consumer
) -> None:
    producer.begin()
    for number in range(20):
        producer.produce(topic, number % 2, b"key", str(number).encode())
    producer.commit(WAIT_S)
    consumer.assign({TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0})
    messages = read(consumer, 20)
    for partition in (0, 1):
        mine = [each for each in messages if each.partition() == partition]
        assert [each.offset() for each in mine] == list(range(10))
        assert values(mine) == [str(number).encode() for number in range(partition, 20, 2)]


def test_a_record_is_read_as_it_was_written(kafka: Kafka, topic: str, producer: Producer, consumer: Consumer) -> None:
    producer.begin()
    producer.produce(topic, 0, b"k", b"v", headers=[("a", b"1"), ("a", b""), ("b", b"2")])
    producer.produce(topic, 0, None, b"without key")
    producer.produce(topic, 0, b"tombstone", None)
    producer.produce(topic, 0, b"", b"")
    producer.commit(WAIT_S)
    consumer.assign({TopicPartition(topic, 0): 0})
    messages = read(consumer, 4)
    assert [(each.key(), each.value()) for each in messages] == [
        (b"k", b"v"),
        (None, b"without key"),
        (b"tombstone", None),
        (b"", b""),
    ]
    assert messages[0].headers() == [("a", b"1"), ("a", b""), ("b", b"2")]
    assert not messages[1].headers()
    assert messages[0].topic() == topic


def test_consume_returns_at_most_what_was_asked_for_and_loses_nothing(
    kafka: Kafka, topic: str, producer: Producer, consumer: Consumer
) -> None:
    commit(producer, topic, 0, [str(number).encode() for number in range(10)])
    consumer.assign({TopicPartition(topic, 0): 0})
    assert values(read(consumer, 3) + read(consumer, 7)) == [str(number).encode() for number in range(10)]
    assert not consumer.consume(10, 0)


def test_consume_does_not_wait_for_more_than_the_first_record(
    kafka: Kafka, topic: str, producer: Producer, consumer: Consumer
) -> None:
    commit(producer, topic, 0, [b"first"])
    consumer.assign({TopicPartition(topic, 0): 0})
    begun = time.monotonic()
    assert values(consumer.consume(1000, WAIT_S)) == [b"first"]
    assert time.monotonic() - begun < WAIT_S / 2


def test_the_broker_stamps_append_time_where_the_topic_says_so(
    kafka: Kafka, producer: Producer, consumer: Consumer
) -> None:
    kinds = {}
    for kind in ("CreateTime", "LogAppendTime"):
        topic = make_topic(kafka, 1, {"message.timestamp.type": kind})
        commit(producer, topic, 0, [b"v"])
        consumer.assign({TopicPartition(topic, 0): 0})
        kinds[kind], milliseconds = read(consumer, 1)[0].timestamp()
        assert milliseconds > 1_600_000_000_000
    assert kinds == {"CreateTime": 1, "LogAppendTime": 2}


def test_keys_choose_partitions_as_java_clients_do(kafka: Kafka, producer: Producer, consumer: Consumer) -> None:
    topic = make_topic(kafka, 7)
    keys = [f"key-{number}".encode() for number in range(50)] + [b"", b"21", b"foobar", bytes(range(256))]
    producer.begin()
    producer.produce_batch(topic, -1, keys, keys)
    producer.commit(WAIT_S)
    consumer.assign({TopicPartition(topic, partition): 0 for partition in range(7)})
    chosen = {each.key(): each.partition() for each in read(consumer, len(keys))}
    assert chosen == {key: partition_of(key, 7) for key in keys}


def test_a_batch_goes_to_its_explicit_partition_in_order(
    kafka: Kafka, topic: str, producer: Producer, consumer: Consumer
) -> None:
    batch = [str(number).encode() for number in range(2000)]
    producer.begin()
    producer.produce_batch(topic, 1, [b"key"] * 2000, [*batch[:-1], None])
    producer.produce_batch(topic, 1, [], [])
    producer.commit(WAIT_S)
    consumer.assign({TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 0})
    messages = read(consumer, 2000)
    assert values(messages) == [*batch[:-1], None]
    assert {each.partition() for each in messages} == {1}


def test_a_batch_needs_a_value_for_every_key(topic: str, producer: Producer) -> None:
    producer.begin()
    with pytest.raises(ValueError, match="2 keys for 1 values"):
        producer.produce_batch(topic, 0, [b"a", b"b"], [b"1"])


def test_a_producer_without_transactions_is_read_at_once(kafka: Kafka, topic: str, consumer: Consumer) -> None:
    plain = kafka.producer(transactional_id=None, name="plain")
    offsets: list[int] = []
    plain.produce(topic, 0, b"key", b"value", on_delivery=offsets.append)
    plain.flush(WAIT_S)
    assert offsets == [0]
    consumer.assign({TopicPartition(topic, 0): 0})
    assert values(read(consumer, 1)) == [b"value"]
    plain.close()


# --- transactions ----------------------------------------------------------------------------------------------------


def test_a_transaction_is_seen_only_after_its_commit(
    kafka: Kafka, topic: str, producer: Producer, consumer: Consumer
) -> None:
    at = TopicPartition(topic, 0)
    peeping = kafka.consumer(read_committed=False, name="peeping")
    consumer.assign({at: 0})
    peeping.assign({at: 0})
    producer.begin()
    write(producer, topic, 0, [b"one"])
    producer.flush(WAIT_S)
    assert values(read(peeping, 1)) == [b"one"]
    assert not consumer.consume(10, QUIET_S)
    producer.commit(WAIT_S)
    assert values(read(consumer, 1)) == [b"one"]
    peeping.close()


def test_aborted_records_are_never_seen(kafka: Kafka, topic: str, producer: Producer, consumer: Consumer) -> None:
    producer.begin()
    write(producer, topic, 0, [b"aborted"])
    producer.flush(WAIT_S)
    producer.abort(WAIT_S)
    commit(producer, topic, 0, [b"committed"])
    consumer.assign({TopicPartition(topic, 0): 0})
    assert values(read(consumer, 1)) == [b"committed"]


def test_an_open_transaction_hides_the_records_behind_it(
    kafka: Kafka, topic: str, producer: Producer, consumer: Consumer
) -> None:
    other = started(kafka, unique("other"))
    producer.begin()
    write(producer, topic, 0, [b"slow"])
    producer.flush(WAIT_S)
    commit(other, topic, 0, [b"fast"])
    consumer.assign({TopicPartition(topic, 0): 0})
    assert not consumer.consume(10, QUIET_S)
    producer.commit(WAIT_S)
    assert values(read(consumer, 2)) == [b"slow", b"fast"]
    other.close()


def test_an_empty_transaction_may_be_committed_and_aborted(topic: str, producer: Producer, consumer: Consumer) -> None:
    producer.begin()
    producer.commit(WAIT_S)
    producer.begin()
    producer.abort(WAIT_S)
    commit(producer, topic, 0, [b"v"])
    # The record and its marker; a marker may be seen a moment after its commit has returned (R6).
    deadline = time.monotonic() + WAIT_S
    while (end := consumer.bounds(TopicPartition(topic, 0), WAIT_S).end) < 2 and time.monotonic() < deadline:
        pass
    assert end == 2


def test_all_delivery_callbacks_have_run_when_commit_returns(
    topic: str, producer: Producer, consumer: Consumer
) -> None:
    for _ in range(3):
        offsets: list[int] = []
        producer.begin()
        for number in range(500):
            producer.produce(topic, number % 2, b"key", str(number).encode(), on_delivery=offsets.append)
        producer.commit(WAIT_S)
        assert len(offsets) == 500


def test_a_delivery_callback_gets_the_offset_at_which_the_record_is_read(
    topic: str, producer: Producer, consumer: Consumer
) -> None:
    commit(producer, topic, 0, [b"before"])
    offsets: list[int] = []
    producer.begin()
    producer.produce_batch(topic, 0, [b"a", b"b"], [b"1", b"2"])
    producer.produce(topic, 0, b"progress", b"last", on_delivery=offsets.append)
    producer.commit(WAIT_S)
    consumer.assign({TopicPartition(topic, 0): offsets[0]})
    last = read(consumer, 1)[0]
    assert (last.offset(), last.value()) == (offsets[0], b"last")


@pytest.mark.parametrize("call", ["commit", "flush", "send_offsets", "abort"])
def test_a_newer_producer_of_the_same_id_fences_the_older(
    kafka: Kafka, topic: str, consumer: Consumer, call: str
) -> None:
    name = unique("tx")
    older = started(kafka, name)
    older.begin()
    write(older, topic, 0, [b"zombie"])
    older.flush(WAIT_S)
    newer = started(kafka, name)

    def zombie_goes_on() -> None:
        older.produce(topic, 0, b"key", b"zombie again", on_delivery=lambda offset: None)
        if call == "flush":
            older.flush(WAIT_S)
        elif call == "send_offsets":
            older.send_offsets({TopicPartition(topic, 0): (1, "")}, unique("group"), WAIT_S)
        elif call == "abort":
            older.abort(WAIT_S)
        else:
            older.commit(WAIT_S)

    with pytest.raises(ProducerLostError):
        zombie_goes_on()
    with pytest.raises(ProducerLostError):
        older.begin()
    commit(newer, topic, 0, [b"newer"])
    consumer.assign({TopicPartition(topic, 0): 0})
    assert values(read(consumer, 1)) == [b"newer"]
    older.close()
    newer.close()


def test_a_fenced_producer_that_begins_anew_learns_it_at_the_latest_when_it_commits(
    kafka: Kafka, topic: str, consumer: Consumer
) -> None:
    name = unique("tx")
    older = started(kafka, name)
    commit(older, topic, 0, [b"before"])
    newer = started(kafka, name)
    with pytest.raises(ProducerLostError):
        commit(older, topic, 0, [b"zombie"])
    commit(newer, topic, 0, [b"after"])
    consumer.assign({TopicPartition(topic, 0): 0})
    assert values(read(consumer, 2)) == [b"before", b"after"]
    older.close()
    newer.close()


def test_closing_a_producer_aborts_its_open_transaction(kafka: Kafka, topic: str, consumer: Consumer) -> None:
    first = started(kafka, unique("tx"))
    first.begin()
    write(first, topic, 0, [b"unfinished"])
    first.flush(WAIT_S)
    first.close()
    second = started(kafka, unique("tx"))
    commit(second, topic, 0, [b"finished"])
    consumer.assign({TopicPartition(topic, 0): 0})
    assert values(read(consumer, 1)) == [b"finished"]
    with pytest.raises(ProducerLostError):
        first.begin()
    second.close()


@pytest.mark.parametrize("sequence", ["begin begin", "produce", "commit", "abort"])
def test_a_call_out_of_order_ends_the_producer(kafka: Kafka, topic: str, sequence: str) -> None:
    producer = started(kafka, unique("tx"))
    calls: dict[str, Callable[[], None]] = {
        "begin": producer.begin,
        "produce": lambda: producer.produce(topic, 0, b"k", b"v"),
        "commit": lambda: producer.commit(WAIT_S),
        "abort": lambda: producer.abort(WAIT_S),
    }
    *legal, illegal = sequence.split()
    for call in legal:
        calls[call]()
    with pytest.raises(ProducerLostError):
        calls[illegal]()
    producer.close()


# --- group offsets ---------------------------------------------------------------------------------------------------


def test_offsets_of_a_transaction_are_committed_with_their_metadata(
    topic: str, producer: Producer, consumer: Consumer
) -> None:
    group, first, second = unique("group"), TopicPartition(topic, 0), TopicPartition(topic, 1)
    producer.begin()
    write(producer, topic, 0, [b"v"])
    producer.send_offsets({first: (41, "parked: ü"), second: (7, "")}, group, WAIT_S)
    producer.send_offsets({first: (42, "parked: ü")}, group, WAIT_S)
    producer.send_offsets({}, group, WAIT_S)
    producer.commit(WAIT_S)
    assert consumer.committed(group, [first, second], WAIT_S) == {
        first: Committed(42, "parked: ü"),
        second: Committed(7, ""),
    }


def test_offsets_without_any_record_are_committed_too(topic: str, producer: Producer, consumer: Consumer) -> None:
    group, at = unique("group"), TopicPartition(topic, 0)
    producer.begin()
    producer.send_offsets({at: (3, "m")}, group, WAIT_S)
    producer.commit(WAIT_S)
    assert consumer.committed(group, [at], WAIT_S) == {at: Committed(3, "m")}


def test_offsets_of_an_aborted_transaction_are_dropped(topic: str, producer: Producer, consumer: Consumer) -> None:
    group, at = unique("group"), TopicPartition(topic, 0)
    for offset, end in ((1, producer.commit), (2, producer.abort)):
        producer.begin()
        write(producer, topic, 0, [b"v"])
        producer.send_offsets({at: (offset, "")}, group, WAIT_S)
        end(WAIT_S)
    assert consumer.committed(group, [at], WAIT_S) == {at: Committed(1, "")}


def test_where_nothing_is_committed_the_offset_is_none(topic: str, consumer: Consumer) -> None:
    at, elsewhere = TopicPartition(topic, 0), TopicPartition("no-such-topic", 3)
    nothing = Committed(None, "")
    assert consumer.committed(unique("group"), [at, elsewhere], WAIT_S) == {at: nothing, elsewhere: nothing}
    assert consumer.committed(unique("group"), [], WAIT_S) == {}


# --- positions and bounds --------------------------------------------------------------------------------------------


def test_the_position_is_the_start_until_something_is_read(topic: str, producer: Producer, consumer: Consumer) -> None:
    commit(producer, topic, 0, [b"a", b"b", b"c"])
    at = TopicPartition(topic, 0)
    assert consumer.position(at) is None
    consumer.assign({at: 1})
    assert consumer.position(at) == 1
    assert values(read(consumer, 1)) == [b"b"]
    assert consumer.position(at) == 2


def test_the_position_passes_markers_and_aborted_records_up_to_the_end(
    topic: str, producer: Producer, consumer: Consumer
) -> None:
    at = TopicPartition(topic, 0)
    commit(producer, topic, 0, [b"a"])
    producer.begin()
    write(producer, topic, 0, [b"aborted"] * 3)
    producer.flush(WAIT_S)
    producer.abort(WAIT_S)
    consumer.assign({at: 0})
    read(consumer, 1)
    deadline = time.monotonic() + WAIT_S
    while consumer.position(at) != 6 and time.monotonic() < deadline:
        assert not consumer.consume(10, 0.05)
    assert consumer.position(at) == 6
    assert consumer.bounds(at, WAIT_S) == Bounds(0, 6)


def await_lag(consumer: Consumer, at: TopicPartition, lag: int) -> None:
    """Consume nothing more until the lag is as expected: it is that of the newest fetch."""
    deadline = time.monotonic() + WAIT_S
    while consumer.lag(at) != lag and time.monotonic() < deadline:
        assert not consumer.consume(10, 0.05)
    assert consumer.lag(at) == lag


def test_the_lag_counts_offsets_ahead_and_reaches_zero_behind_the_last_marker(
    topic: str, producer: Producer, consumer: Consumer
) -> None:
    at = TopicPartition(topic, 0)
    commit(producer, topic, 0, [b"a", b"b", b"c"])
    assert consumer.lag(at) is None
    consumer.assign({at: 0})
    assert consumer.lag(at) in {None, 4}
    read(consumer, 1)
    assert consumer.lag(at) == 3
    read(consumer, 2)
    await_lag(consumer, at, 0)
    commit(producer, topic, 0, [b"d", b"e"])
    read(consumer, 1)
    assert consumer.lag(at) in {1, 2}  # a fetch may bring records before their marker is there
    read(consumer, 1)
    await_lag(consumer, at, 0)
    consumer.remove([at])
    assert consumer.lag(at) is None


def test_the_lag_of_an_empty_partition_is_zero_once_it_is_fetched(topic: str, consumer: Consumer) -> None:
    at = TopicPartition(topic, 0)
    consumer.assign({at: 0})
    await_lag(consumer, at, 0)


def test_the_lag_counts_what_is_not_committed_yet(topic: str, producer: Producer, consumer: Consumer) -> None:
    at = TopicPartition(topic, 0)
    commit(producer, topic, 0, [b"a"])
    producer.begin()
    write(producer, topic, 0, [b"open"] * 2)
    producer.flush(WAIT_S)
    consumer.assign({at: 0})
    read(consumer, 1)
    await_lag(consumer, at, 2)
    producer.abort(WAIT_S)
    await_lag(consumer, at, 0)


def test_the_lag_of_a_paused_partition_stays_known(topic: str, producer: Producer, consumer: Consumer) -> None:
    at = TopicPartition(topic, 0)
    commit(producer, topic, 0, [b"a", b"b", b"c"])
    consumer.assign({at: 0})
    read(consumer, 1)
    consumer.pause([at])
    assert consumer.lag(at) == 3


def test_bounds_count_what_is_not_committed_whatever_the_isolation(
    topic: str, producer: Producer, consumer: Consumer
) -> None:
    at = TopicPartition(topic, 0)
    commit(producer, topic, 0, [b"a"])
    producer.begin()
    write(producer, topic, 0, [b"open"] * 2)
    producer.flush(WAIT_S)
    assert consumer.bounds(at, WAIT_S) == Bounds(0, 4)
    producer.abort(WAIT_S)


def test_bounds_of_a_topic_that_does_not_exist_is_an_error(consumer: Consumer) -> None:
    with pytest.raises(TopicMissingError, match="create the topic"):
        consumer.bounds(TopicPartition(unique("missing"), 0), WAIT_S)


# --- lost input ------------------------------------------------------------------------------------------------------


def test_a_position_behind_the_end_is_an_error_that_names_all(
    topic: str, producer: Producer, consumer: Consumer
) -> None:
    commit(producer, topic, 0, [b"a"])
    consumer.assign({TopicPartition(topic, 0): 100})
    raised = until_raised(InputLostError, lambda: consumer.consume(10, 0.1))
    assert f"{topic}[0]: offset 100 can't be read, the log holds 0 … 2" in str(raised)


def test_a_position_before_the_start_is_an_error_and_a_new_start_goes_on(
    rig: Rig, topic: str, producer: Producer, consumer: Consumer
) -> None:
    at = TopicPartition(topic, 0)
    commit(producer, topic, 0, [str(number).encode() for number in range(6)])
    rig.delete_records(at, 4)
    assert consumer.bounds(at, WAIT_S) == Bounds(4, 7)
    consumer.assign({at: 2})
    raised = until_raised(InputLostError, lambda: consumer.consume(10, 0.1))
    assert "offset 2 can't be read, the log holds 4 … 7" in str(raised)
    consumer.add({at: 4})
    assert values(read(consumer, 2)) == [b"4", b"5"]


def test_a_lost_partition_costs_the_others_nothing(topic: str, producer: Producer, consumer: Consumer) -> None:
    commit(producer, topic, 0, [str(number).encode() for number in range(5)])
    found: list[Message] = []
    consumer.assign({TopicPartition(topic, 0): 0, TopicPartition(topic, 1): 9})
    lost = 0
    deadline = time.monotonic() + WAIT_S
    while (len(found) < 5 or not lost) and time.monotonic() < deadline:
        try:
            found += consumer.consume(10, 0.05)
        except InputLostError as error:
            assert f"{topic}[1]" in str(error)
            lost += 1
            consumer.remove([TopicPartition(topic, 1)])
    assert values(found) == [b"0", b"1", b"2", b"3", b"4"]
    assert lost == 1


def test_the_end_itself_is_no_lost_position(topic: str, producer: Producer, consumer: Consumer) -> None:
    commit(producer, topic, 0, [b"a"])
    consumer.assign({TopicPartition(topic, 0): 2})
    assert not consumer.consume(10, QUIET_S)
    commit(producer, topic, 0, [b"b"])
    assert values(read(consumer, 1)) == [b"b"]


# --- assignment ------------------------------------------------------------------------------------------------------


def test_a_partition_is_added_and_removed_without_disturbing_the_others(
    topic: str, producer: Producer, consumer: Consumer
) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    commit(producer, topic, 0, [b"a", b"b", b"c"])
    commit(producer, topic, 1, [b"x", b"y", b"z"])
    consumer.assign({first: 0})
    assert values(read(consumer, 1)) == [b"a"]
    consumer.add({second: 1})
    assert sorted(values(read(consumer, 4))) == [b"b", b"c", b"y", b"z"]
    consumer.remove([second, TopicPartition("never-assigned", 0)])
    commit(producer, topic, 1, [b"unread"])
    commit(producer, topic, 0, [b"d"])
    assert values(read(consumer, 1)) == [b"d"]
    assert not consumer.consume(10, QUIET_S)
    assert (consumer.position(second), consumer.position(first)) == (None, 6)


def test_assign_replaces_everything(topic: str, producer: Producer, consumer: Consumer) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    commit(producer, topic, 0, [b"a", b"b"])
    commit(producer, topic, 1, [b"x", b"y"])
    consumer.assign({first: 0})
    read(consumer, 2)
    consumer.assign({second: 1})
    assert values(read(consumer, 1)) == [b"y"]
    assert consumer.position(first) is None
    consumer.assign({})
    assert not consumer.consume(10, 0)


def test_assigning_anew_further_back_moves_the_position_back_at_once(
    topic: str, producer: Producer, consumer: Consumer
) -> None:
    """After a lost transaction a task reads again from its last commit; a position left over would skip its rows."""
    at = TopicPartition(topic, 0)
    commit(producer, topic, 0, [b"a", b"b", b"c"])
    consumer.assign({at: 0})
    read(consumer, 3)
    consumer.assign({})
    consumer.assign({at: 1})
    assert consumer.position(at) == 1
    consumer.consume(0, 0)
    assert consumer.position(at) == 1
    assert values(read(consumer, 2)) == [b"b", b"c"]


def test_adding_an_assigned_partition_moves_it(topic: str, producer: Producer, consumer: Consumer) -> None:
    at = TopicPartition(topic, 0)
    commit(producer, topic, 0, [b"a", b"b", b"c"])
    consumer.assign({at: 0})
    read(consumer, 3)
    consumer.add({at: 1})
    assert consumer.position(at) == 1
    assert values(read(consumer, 2)) == [b"b", b"c"]


def test_a_paused_partition_rests_and_goes_on_where_it_stopped(
    topic: str, producer: Producer, consumer: Consumer
) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    commit(producer, topic, 0, [b"a", b"b", b"c"])
    consumer.assign({first: 0, second: 0})
    assert values(read(consumer, 1)) == [b"a"]
    consumer.pause([first, TopicPartition("never-assigned", 0)])
    commit(producer, topic, 1, [b"x"])
    assert values(read(consumer, 1)) == [b"x"]
    assert not consumer.consume(10, QUIET_S)
    assert consumer.position(first) == 1
    consumer.resume([first])
    assert values(read(consumer, 2)) == [b"b", b"c"]


def test_a_partition_that_was_paused_before_it_was_read_starts_at_its_start(
    topic: str, producer: Producer, consumer: Consumer
) -> None:
    at = TopicPartition(topic, 0)
    commit(producer, topic, 0, [b"a", b"b", b"c"])
    consumer.assign({at: 1})
    consumer.pause([at])
    assert not consumer.consume(10, QUIET_S)
    assert consumer.position(at) == 1
    consumer.resume([at])
    assert values(read(consumer, 2)) == [b"b", b"c"]


def test_warming_reads_nothing_and_takes_nothing_away(topic: str, producer: Producer, consumer: Consumer) -> None:
    first, second = TopicPartition(topic, 0), TopicPartition(topic, 1)
    commit(producer, topic, 0, [b"a", b"b"])
    commit(producer, topic, 1, [b"x"])
    consumer.warm([first, second, TopicPartition("never-made", 0)])
    assert consumer.position(first) is None
    consumer.add({first: 0})
    assert values(read(consumer, 2)) == [b"a", b"b"]
    consumer.warm([first, second])
    assert not consumer.consume(10, QUIET_S)
    consumer.add({second: 0})
    assert values(read(consumer, 1)) == [b"x"]
    producer.warm([topic, "never-made"], "never-a-group")
    commit(producer, topic, 0, [b"c"])
    assert values(read(consumer, 1)) == [b"c"]


def test_warming_assigns_nothing_whose_end_might_be_asked_for_again_later(kafka: Kafka, topic: str) -> None:
    """Seen after a broker's crash: such a request was repeated when the partition was read from its own offset."""
    consumer = kafka.consumer(name="warm")
    client = getattr(consumer, "_client", None)
    if client is None:
        pytest.skip("the fake has no client that could repeat a request")
    warming = threading.Thread(target=consumer.warm, args=([TopicPartition(topic, 0)],))
    warming.start()
    seen = []
    while warming.is_alive():
        seen += client.assignment()
    consumer.close()
    assert seen == []


@pytest.mark.parametrize("how", ["add", "remove and add", "assign"])
def test_a_pause_does_not_outlive_the_assignment(topic: str, producer: Producer, consumer: Consumer, how: str) -> None:
    at = TopicPartition(topic, 0)
    commit(producer, topic, 0, [b"a"])
    consumer.assign({at: 0})
    consumer.pause([at])
    if how == "remove and add":
        consumer.remove([at])
    if how == "assign":
        consumer.assign({at: 0})
    else:
        consumer.add({at: 0})
    assert values(read(consumer, 1)) == [b"a"]


# --- topics ----------------------------------------------------------------------------------------------------------


def test_describe_tells_partitions_id_and_effective_settings(kafka: Kafka) -> None:
    admin = kafka.admin()
    name = make_topic(kafka, 3, {"cleanup.policy": "compact", "message.timestamp.type": "LogAppendTime"})
    missing = unique("missing")
    answer = admin.describe([name, missing, name], WAIT_S)
    assert answer.keys() == {name}
    info = answer[name]
    assert (info.name, info.partitions) == (name, 3)
    assert info.topic_id
    assert info.config["cleanup.policy"] == "compact"
    assert info.config["message.timestamp.type"] == "LogAppendTime"
    assert int(info.config["max.message.bytes"]) > 0
    assert int(info.config["delete.retention.ms"]) > 0
    assert admin.describe([], WAIT_S) == {}


def test_creating_an_existing_topic_leaves_it_as_it_is(kafka: Kafka) -> None:
    admin = kafka.admin()
    name, other = make_topic(kafka, 2, {"retention.ms": "12345"}), unique("contract")
    before = admin.describe([name], WAIT_S)
    admin.create([TopicSpec(name, 5, {"retention.ms": "99999"}), TopicSpec(other, 1)], 1, WAIT_S)
    after = admin.describe([name, other], WAIT_S)
    assert after[name] == before[name]
    assert after[other].partitions == 1
    admin.create([], 1, WAIT_S)


def test_a_topic_made_anew_has_another_id(rig: Rig, kafka: Kafka) -> None:
    admin = kafka.admin()
    name = make_topic(kafka, 1)
    before = admin.describe([name], WAIT_S)[name].topic_id
    rig.delete_topic(name)
    deadline = time.monotonic() + WAIT_S
    while admin.describe([name], WAIT_S) and time.monotonic() < deadline:
        pass
    admin.create([TopicSpec(name, 1)], 1, WAIT_S)
    assert admin.describe([name], WAIT_S)[name].topic_id != before


@pytest.mark.parametrize(("partitions", "replication"), [(0, 1), (1, 3)])
def test_an_impossible_topic_is_an_error_with_its_name(kafka: Kafka, partitions: int, replication: int) -> None:
    name = unique("contract")
    with pytest.raises(TopicMismatchError, match=f"{name} can't be created as asked"):
        kafka.admin().create([TopicSpec(name, partitions)], replication, WAIT_S)


# --- sizes -----------------------------------------------------------------------------------------------------------


def test_a_record_above_the_client_limit_is_refused_before_it_enters_the_transaction(
    topic: str, producer: Producer, consumer: Consumer
) -> None:
    producer.begin()
    write(producer, topic, 0, [b"before"])
    with pytest.raises(RecordTooLargeError):
        producer.produce(topic, 0, b"", bytes(MAX_RECORD_BYTES + 1000))
    write(producer, topic, 0, [b"after"])
    producer.commit(WAIT_S)
    consumer.assign({TopicPartition(topic, 0): 0})
    assert values(read(consumer, 2)) == [b"before", b"after"]


def test_the_largest_record_allowed_passes_the_broker_too(topic: str, producer: Producer, consumer: Consumer) -> None:
    value = os.urandom(MAX_RECORD_BYTES - 1)
    producer.begin()
    producer.produce(topic, 0, b"k", value)
    producer.commit(WAIT_S)
    consumer.assign({TopicPartition(topic, 0): 0})
    assert values(read(consumer, 1)) == [value]


def test_a_batch_names_its_records_that_are_too_large_and_queues_all_others(
    topic: str, producer: Producer, consumer: Consumer
) -> None:
    producer.begin()
    with pytest.raises(RecordTooLargeError, match=r"key b'big'.*all other records of the batch are queued"):
        producer.produce_batch(topic, 0, [b"a", b"big", b"c"], [b"1", bytes(MAX_RECORD_BYTES + 1000), b"3"])
    producer.commit(WAIT_S)
    consumer.assign({TopicPartition(topic, 0): 0})
    assert values(read(consumer, 2)) == [b"1", b"3"]


def test_a_record_above_the_topic_limit_fails_the_commit_and_ends_the_producer(
    kafka: Kafka, consumer: Consumer
) -> None:
    topic, name = make_topic(kafka, 1, {"max.message.bytes": "2000"}), unique("tx")
    producer = started(kafka, name)
    producer.begin()
    producer.produce(topic, 0, b"k", os.urandom(5000))
    with pytest.raises(RecordTooLargeError):
        producer.commit(WAIT_S)
    with pytest.raises(ProducerLostError):
        producer.abort(WAIT_S)
    producer.close()
    producer = started(kafka, name)
    commit(producer, topic, 0, [b"small"])
    consumer.assign({TopicPartition(topic, 0): 0})
    assert values(read(consumer, 1)) == [b"small"]
    producer.close()


def test_a_compacted_topic_takes_no_record_without_a_key(kafka: Kafka, producer: Producer) -> None:
    topic = make_topic(kafka, 1, {"cleanup.policy": "compact"})
    producer.begin()
    producer.produce(topic, 0, None, b"v")
    with pytest.raises(ProducerLostError):
        producer.commit(WAIT_S)
