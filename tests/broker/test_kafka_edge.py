"""The Kafka edge when the broker is slow, silent, restarted or full."""

from __future__ import annotations

import contextlib
import os
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as ClientPartition

from statemgr.errors import (
    KafkaUnavailableError,
    ProducerLostError,
    RecordTooLargeError,
    RetryableKafkaError,
    TopicMissingError,
)
from statemgr.kafka import producer as producer_module
from statemgr.kafka.confluent import ConfluentKafka
from statemgr.kafka.consumer import ConfluentConsumer
from statemgr.kafka.ports import Message, TopicSpec
from statemgr.kafka.producer import ConfluentProducer
from statemgr.types import TopicPartition
from towpath.broker import LocalBroker
from towpath_native import WHY_NOT
from towpath_native.fetcher import Fault, Fetcher

pytestmark = [pytest.mark.broker, pytest.mark.slow]

WAIT_S = 20.0
NOBODY = "127.0.0.1:1"
"""An address at which nothing listens."""


@pytest.fixture(scope="module")
def mortal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A broker that the tests of this module pause and kill; each leaves it running."""
    broker = LocalBroker(tmp_path_factory.mktemp("mortal"))
    broker.start()
    yield broker
    broker.stop()


@pytest.fixture
def kafka(mortal: LocalBroker) -> ConfluentKafka:
    return ConfluentKafka(mortal.bootstrap)


@pytest.fixture
def topic(kafka: ConfluentKafka) -> str:
    return make_topic(kafka, 1)


def unique(stem: str) -> str:
    return f"{stem}-{uuid.uuid4().hex[:8]}"


def make_topic(kafka: ConfluentKafka, partitions: int, **config: str) -> str:
    name = unique("edge")
    settings = {key.replace("_", "."): value for key, value in config.items()}
    kafka.admin().create([TopicSpec(name, partitions, settings)], 1, WAIT_S)
    return name


def started(kafka: ConfluentKafka, transactional_id: str) -> ConfluentProducer:
    producer = kafka.producer(transactional_id=transactional_id, name="writer")
    producer.init_transactions(WAIT_S)
    return producer


def commit(producer: ConfluentProducer, topic: str, *values: bytes) -> None:
    producer.begin()
    for value in values:
        producer.produce(topic, 0, b"key", value)
    producer.commit(WAIT_S)


def read(consumer: ConfluentConsumer, count: int) -> list[bytes | None]:
    found: list[Message] = []
    deadline = time.monotonic() + WAIT_S
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.consume(count - len(found), 0.1)
    assert len(found) == count, f"{len(found)} of {count} records came within {WAIT_S} s"
    return [message.value() for message in found]


def read_all(kafka: ConfluentKafka, topic: str) -> list[bytes | None]:
    consumer = kafka.consumer(name="all")
    at = TopicPartition(topic, 0)
    start, end = consumer.bounds(at, WAIT_S)
    consumer.assign({at: start})
    found: list[Message] = []
    deadline = time.monotonic() + WAIT_S
    while (consumer.position(at) or 0) < end and time.monotonic() < deadline:
        found += consumer.consume(1000, 0.1)
    assert (consumer.position(at) or 0) >= end
    consumer.close()
    return [message.value() for message in found]


@contextlib.contextmanager
def paused(broker: LocalBroker) -> Iterator[None]:
    broker.pause()
    try:
        yield
    finally:
        broker.resume()


# --- no broker -------------------------------------------------------------------------------------------------------

QUESTIONS: dict[str, Callable[[ConfluentKafka], object]] = {
    "ping": lambda kafka: kafka.ping(0.5),
    "describe": lambda kafka: kafka.admin().describe(["t"], 0.5),
    "create": lambda kafka: kafka.admin().create([TopicSpec("t", 1)], 1, 0.5),
    "bounds": lambda kafka: kafka.consumer(name="c").bounds(TopicPartition("t", 0), 0.5),
    "committed": lambda kafka: kafka.consumer(name="c").committed("g", [TopicPartition("t", 0)], 0.5),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_without_a_broker_every_question_ends_at_its_deadline_and_names_the_address(question: str) -> None:
    begun = time.monotonic()
    with pytest.raises(KafkaUnavailableError, match=rf"no answer from Kafka at {NOBODY} within 0.5 s") as raised:
        QUESTIONS[question](ConfluentKafka(NOBODY))
    assert time.monotonic() - begun < 3
    assert "check that a broker runs there" in str(raised.value)


def test_without_a_broker_reading_is_quiet_and_counts_the_trouble() -> None:
    consumer = ConfluentKafka(NOBODY).consumer(name="c")
    consumer.assign({TopicPartition("t", 0): 0})
    for _ in range(5):
        assert not consumer.consume(10, 0.2)
    assert consumer.notes["_TRANSPORT"] + consumer.notes["_ALL_BROKERS_DOWN"] > 0
    consumer.close()


def test_without_a_broker_a_start_may_be_repeated() -> None:
    producer = ConfluentKafka(NOBODY).producer(transactional_id="t", name="p")
    for _ in range(2):
        with pytest.raises(RetryableKafkaError, match=rf"init_transactions: no definite answer .* {NOBODY}"):
            producer.init_transactions(0.3)
    producer.close()


# --- a silent broker -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["commit", "abort", "send_offsets"])
def test_a_silent_broker_ends_the_producer_at_the_deadline_and_a_new_one_goes_on(
    mortal: LocalBroker, kafka: ConfluentKafka, topic: str, call: str
) -> None:
    """R4: no definite answer to commit, abort or send_offsets → a new instance."""
    name = unique("tx")
    producer = started(kafka, name)
    commit(producer, topic, b"before")
    producer.begin()
    producer.produce(topic, 0, b"key", b"in doubt")
    producer.flush(WAIT_S)
    calls: dict[str, Callable[[], None]] = {
        "commit": lambda: producer.commit(0.5),
        "abort": lambda: producer.abort(0.5),
        "send_offsets": lambda: producer.send_offsets({TopicPartition(topic, 0): (1, "")}, "g", 0.5),
    }
    with paused(mortal):  # as long as it lasts nothing is answered: whatever returns has kept its own deadline
        with pytest.raises(ProducerLostError, match=f"{call}: no definite answer from Kafka at"):
            calls[call]()
        with pytest.raises(ProducerLostError):
            producer.begin()
        producer.close()
    newer = started(kafka, name)
    commit(newer, topic, b"after")
    values = read_all(kafka, topic)
    doubtful = [b"in doubt"] if call == "commit" and b"in doubt" in values else []
    assert values == [b"before", *doubtful, b"after"]
    newer.close()


def test_a_full_queue_is_waited_for_and_then_named(
    mortal: LocalBroker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = ConfluentKafka(mortal.bootstrap, {"queue.buffering.max.messages": "100"})
    producer = small.producer(transactional_id=None, name="p")
    producer.produce(topic, 0, b"key", b"first")
    producer.flush(WAIT_S)
    monkeypatch.setattr(producer_module, "QUEUE_FULL_DEADLINE_S", 0.3)
    with paused(mortal):
        with pytest.raises(RetryableKafkaError, match=r"the queue of 100 records found no room for 0\.3 s"):
            for _ in range(101):
                producer.produce(topic, 0, b"key", b"v")
        with pytest.raises(RetryableKafkaError, match=r"100 records are not acknowledged .* after 0\.2 s"):
            producer.flush(0.2)
    producer.flush(WAIT_S)
    assert len(read_all(small, topic)) == 101
    producer.close()


@pytest.mark.parametrize("how", ["produce", "produce_batch"])
def test_more_records_than_the_queue_holds_keep_their_order(mortal: LocalBroker, topic: str, how: str) -> None:
    small = ConfluentKafka(mortal.bootstrap, {"queue.buffering.max.messages": "1000"})
    producer = started(small, unique("tx"))
    values = [str(number).encode() for number in range(10_000)]
    producer.begin()
    if how == "produce":
        for value in values:
            producer.produce(topic, 0, b"key", value)
    else:
        producer.produce_batch(topic, 0, [b"key"] * len(values), values)
    producer.commit(WAIT_S)
    assert read_all(small, topic) == values
    producer.close()


# --- a broker that comes back ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_consumer_goes_on_after_the_broker_was_away(
    mortal: LocalBroker, kafka: ConfluentKafka, topic: str, how: str
) -> None:
    producer = started(kafka, unique("tx"))
    commit(producer, topic, b"before")
    consumer = kafka.consumer(name="c")
    consumer.assign({TopicPartition(topic, 0): 0})
    assert read(consumer, 1) == [b"before"]
    if how == "stop":
        mortal.stop()
    else:
        mortal.kill()
    for _ in range(5):
        assert not consumer.consume(10, 0.2)
    assert consumer.notes
    mortal.start()
    producer = started(kafka, unique("tx"))
    commit(producer, topic, b"after")
    begun = time.monotonic()
    assert read(consumer, 1) == [b"after"]
    assert time.monotonic() - begun < 5
    consumer.close()
    producer.close()


def test_a_transaction_across_a_restart_is_committed_whole_or_not_at_all(
    mortal: LocalBroker, kafka: ConfluentKafka, topic: str
) -> None:
    name = unique("tx")
    producer = started(kafka, name)
    producer.begin()
    producer.produce(topic, 0, b"key", b"one")
    producer.flush(WAIT_S)
    mortal.kill()
    producer.produce(topic, 0, b"key", b"two")
    mortal.start()
    try:
        producer.commit(WAIT_S)
    except ProducerLostError:
        expected: list[list[bytes]] = [[], [b"one", b"two"]]
    else:
        expected = [[b"one", b"two"]]
    producer.close()
    newer = started(kafka, name)
    commit(newer, topic, b"after")
    assert read_all(kafka, topic) in [[*before, b"after"] for before in expected]
    newer.close()


# --- fencing ---------------------------------------------------------------------------------------------------------


def test_a_start_can_be_cut_short_and_repeated_on_further_instances(kafka: ConfluentKafka, topic: str) -> None:
    """R17: the first tap makes the broker abort the open transaction, the second instance need not wait for it.

    The request of the instance that was closed may still be on its way and be answered after the second's: then the
    second is the one that is fenced, by name and before anything of it is committed, and one more is started.
    """
    name = unique("tx")
    older = started(kafka, name)
    older.begin()
    older.produce(topic, 0, b"key", b"zombie")
    older.flush(WAIT_S)
    first = kafka.producer(transactional_id=name, name="p")
    with contextlib.suppress(RetryableKafkaError):
        first.init_transactions(0.03)
    first.close()
    for last in (False, True):
        with contextlib.closing(started(kafka, name)) as further:
            try:
                commit(further, topic, b"further")
            except ProducerLostError:
                if last:
                    raise
                continue
            break
    assert read_all(kafka, topic) == [b"further"]
    with pytest.raises(ProducerLostError):
        older.commit(WAIT_S)
    older.close()


# --- refused records and topics --------------------------------------------------------------------------------------


def test_a_record_that_the_broker_refuses_ends_a_producer_without_transactions_by_name(kafka: ConfluentKafka) -> None:
    topic = make_topic(kafka, 1, max_message_bytes="1000")
    producer = kafka.producer(transactional_id=None, name="p")
    producer.produce(topic, 0, b"key", os.urandom(5000))
    with pytest.raises(RecordTooLargeError, match=f"delivery to {topic}"):
        producer.flush(WAIT_S)
    with pytest.raises(ProducerLostError):
        producer.produce(topic, 0, b"key", b"v")
    producer.close()


def test_reading_a_topic_that_does_not_exist_is_an_error_that_says_so(kafka: ConfluentKafka) -> None:
    missing = unique("missing")
    consumer = kafka.consumer(name="c")
    consumer.assign({TopicPartition(missing, 0): 0})
    deadline = time.monotonic() + WAIT_S
    with pytest.raises(TopicMissingError, match=rf"{missing}\[0\] can't be read"):
        while time.monotonic() < deadline:
            consumer.consume(10, 0.2)
    consumer.close()


def test_an_error_of_a_partition_that_was_taken_away_is_dropped(kafka: ConfluentKafka) -> None:
    topic = make_topic(kafka, 2)
    lost, kept = TopicPartition(topic, 0), TopicPartition(topic, 1)
    consumer = kafka.consumer(name="c")
    consumer.assign({lost: 1000, kept: 0})
    time.sleep(0.5)  # the error is in the client's queue by now
    consumer.remove([lost])
    for _ in range(5):
        assert not consumer.consume(10, 0.1)
    consumer.close()


@pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT))
def test_a_record_of_a_partition_that_was_not_routed_is_an_error_and_not_passed_over(
    mortal: LocalBroker, kafka: ConfluentKafka, topic: str
) -> None:
    with contextlib.closing(kafka.producer(transactional_id=None, name="p")) as producer:
        producer.produce(topic, 0, b"key", b"1")
        producer.flush(WAIT_S)
    client = Consumer({"bootstrap.servers": mortal.bootstrap, "group.id": "unused", "error_cb": print})
    fetcher = Fetcher(client)
    client.assign([ClientPartition(topic, 0, 0)])
    end_s = time.monotonic() + WAIT_S
    faults: list[Fault] = []
    while not faults and time.monotonic() < end_s:
        records, faults = fetcher.fetch(10, 0.05)
        assert not records
    fetcher.close()
    client.close()
    assert "not routed" in faults[0].text
