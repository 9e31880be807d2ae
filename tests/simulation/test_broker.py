"""The simulated broker that is away: what still works, what fails and when, and what becomes of the last requests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from statemgr.errors import KafkaUnavailableError, ProducerLostError, RetryableKafkaError, StateError
from statemgr.kafka.ports import TopicSpec
from statemgr.testing.producer import FakeProducer
from statemgr.types import TopicPartition
from tests.simulation.broker import SimulatedKafka, Unanswered
from tests.simulation.world import World

ROWS = TopicPartition("rows", 0)
AWAY_S = 5.0
SOON_S = 0.1


class Clients:
    """What one process does in a world whose broker leaves after a second."""

    def __init__(self, unanswered: Unanswered = Unanswered.LOST, at: str = "") -> None:
        self.world = World(1)
        self.kafka = SimulatedKafka(self.world, marker_lag_s=0.0)
        self.kafka.cluster.create(TopicSpec(ROWS.topic, 1))
        self.world.at(1.0, lambda: self.kafka.broker.leave(AWAY_S, unanswered, at))

    def run(self, body: Callable[[], object]) -> None:
        """Let a process do something, until all is over."""
        self.world.start("process", lambda _: body())
        self.world.run_until(60.0)
        self.world.close()

    def begun(self) -> FakeProducer:
        """A producer with an open transaction and one acknowledged record, when the broker has just left."""
        producer = self.kafka.producer(transactional_id="t", name="process")
        producer.init_transactions(1.0)
        producer.begin()
        self.world.sleep(max(0.0, 0.99 - self.world.now_s))
        producer.produce(ROWS.topic, 0, b"k", b"1")
        self.world.sleep(max(0.0, 1.01 - self.world.now_s))
        return producer

    def read(self) -> list[bytes | None]:
        """What is committed."""
        entries, _ = self.kafka.cluster.log(ROWS).read(0, 100, read_committed=True)
        return [entry.value for entry in entries]


@pytest.mark.parametrize(
    ("ask", "error"),
    [
        (lambda kafka: kafka.consumer(name="c").bounds(ROWS, 2.0), KafkaUnavailableError),
        (lambda kafka: kafka.consumer(name="c").committed("g", [ROWS], 2.0), KafkaUnavailableError),
        (lambda kafka: kafka.admin().describe(["rows"], 2.0), KafkaUnavailableError),
        (lambda kafka: kafka.admin().create([TopicSpec("more", 1)], 1, 2.0), KafkaUnavailableError),
        (lambda kafka: kafka.producer(transactional_id="t", name="p").init_transactions(2.0), RetryableKafkaError),
    ],
    ids=["bounds", "committed", "describe", "create", "init"],
)
def test_questions_fail_at_their_deadline(ask: Callable[[SimulatedKafka], object], error: type[StateError]) -> None:
    clients, failed_s = Clients(), []

    def body() -> None:
        clients.world.sleep(1.5)
        with pytest.raises(error):
            ask(clients.kafka)
        failed_s.append(clients.world.now_s)

    clients.run(body)
    assert failed_s == [pytest.approx(3.5, abs=SOON_S)]


def test_a_question_with_time_enough_is_answered_when_the_broker_is_back() -> None:
    clients, answered_s = Clients(), []

    def body() -> None:
        clients.world.sleep(1.5)
        clients.kafka.consumer(name="c").bounds(ROWS, 20.0)
        answered_s.append(clients.world.now_s)

    clients.run(body)
    assert answered_s == [pytest.approx(1.0 + AWAY_S, abs=SOON_S)]


def test_a_reader_sees_an_idle_partition() -> None:
    clients, found = Clients(), []

    def body() -> None:
        consumer = clients.kafka.consumer(name="c")
        consumer.assign({ROWS: 0})
        clients.world.sleep(1.5)
        before_s = clients.world.now_s
        found.append((consumer.consume(10, 1.0), clients.world.now_s - before_s))

    clients.run(body)
    assert found == [([], pytest.approx(1.0, abs=SOON_S))]


def test_queued_records_are_written_in_order_when_the_broker_is_back() -> None:
    clients = Clients()

    def body() -> None:
        producer = clients.begun()
        producer.produce(ROWS.topic, 0, b"k", b"2")
        with pytest.raises(RetryableKafkaError):
            producer.flush(1.0)
        producer.produce(ROWS.topic, 0, b"k", b"3")
        producer.commit(20.0)

    clients.run(body)
    assert clients.read() == [b"1", b"2", b"3"]


def test_a_flush_that_has_nothing_to_wait_for_needs_no_broker() -> None:
    clients = Clients()
    clients.run(lambda: clients.begun().flush(0.1))


@pytest.mark.parametrize(("unanswered", "committed"), [(Unanswered.LOST, []), (Unanswered.DONE, [b"1"])])
def test_a_commit_without_an_answer_has_or_has_not_taken_effect(unanswered: Unanswered, committed: list[bytes]) -> None:
    clients = Clients(unanswered)

    def body() -> None:
        producer = clients.begun()
        with pytest.raises(ProducerLostError):
            producer.commit(1.0)
        clients.world.sleep(AWAY_S)
        clients.kafka.producer(transactional_id="t", name="process").init_transactions(1.0)

    clients.run(body)
    assert clients.read() == committed


def test_a_commit_that_was_given_up_takes_effect_before_anything_else_is_done() -> None:
    clients = Clients(Unanswered.LATE)

    def body() -> None:
        producer = clients.begun()
        with pytest.raises(ProducerLostError):
            producer.commit(1.0)
        producer.close()
        clients.kafka.producer(transactional_id="t", name="process").init_transactions(20.0)

    clients.run(body)
    assert clients.read() == [b"1"]


def test_a_commit_with_queued_records_is_not_even_sent() -> None:
    clients = Clients(Unanswered.LATE)

    def body() -> None:
        producer = clients.begun()
        producer.produce(ROWS.topic, 0, b"k", b"2")
        with pytest.raises(ProducerLostError):
            producer.commit(1.0)

    clients.run(body)
    assert clients.read() == []


def test_an_init_that_was_given_up_fences_whoever_has_the_id_when_the_broker_is_back() -> None:
    clients = Clients(Unanswered.LATE)

    def body() -> None:
        producer = clients.kafka.producer(transactional_id="t", name="process")
        producer.init_transactions(1.0)
        clients.world.sleep(1.5)
        with pytest.raises(RetryableKafkaError):
            clients.kafka.producer(transactional_id="t", name="other").init_transactions(1.0)
        clients.world.sleep(AWAY_S)
        producer.begin()
        with pytest.raises(ProducerLostError):
            producer.send_offsets({ROWS: (1, "")}, "g", 1.0)

    clients.run(body)


def test_a_transaction_that_was_open_all_the_time_has_timed_out() -> None:
    clients = Clients()
    clients.kafka.cluster.transaction_timeout_s = 2.0

    def body() -> None:
        with pytest.raises(ProducerLostError):
            clients.begun().commit(20.0)

    clients.run(body)
    assert clients.read() == []


def test_the_broker_can_leave_at_a_call() -> None:
    clients = Clients(Unanswered.DONE, at="commit")

    def body() -> None:
        producer = clients.begun()
        producer.flush(0.1)
        clients.world.sleep(1.0)
        with pytest.raises(ProducerLostError):
            producer.commit(1.0)

    clients.run(body)
    assert clients.read() == [b"1"]
