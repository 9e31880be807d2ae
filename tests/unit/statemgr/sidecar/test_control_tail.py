"""Following the control log."""

from __future__ import annotations

import threading

import pytest

from statemgr.control.log import ControlReader
from statemgr.control.records import Assigned, Manner, control_key, encode_control
from statemgr.errors import CodecError, KafkaUnavailableError, TopicMismatchError
from statemgr.kafka.ports import TopicSpec
from statemgr.layout import control_topic
from statemgr.sidecar import control_tail
from statemgr.sidecar.control_tail import ControlTail
from statemgr.testing import FakeKafka
from statemgr.types import TaskId

TASK = TaskId("count", 3)


class Tail:
    """A tail on a fake Kafka, stepped by hand."""

    def __init__(self) -> None:
        self.kafka = FakeKafka()
        self.changes = 0
        stop = threading.Event()
        stop.wait = lambda timeout=None: bool(self.kafka.clock.advance(timeout or 0.0))
        reader = ControlReader(self.kafka, "shop", "tail", self.kafka.clock)
        self.tail = ControlTail(reader, self.kafka.clock, self._changed, stop)

    def _changed(self) -> None:
        self.changes += 1

    def create(self) -> None:
        self.kafka.admin().create([TopicSpec(control_topic("shop"), 1)], 1, 1.0)

    def assign(self, epoch: int, owner: str) -> None:
        record = Assigned(*TASK, epoch, owner, (), (), Manner(), 1)
        self.write(control_key(record), encode_control(record))

    def write(self, key: bytes, value: bytes) -> None:
        producer = self.kafka.producer(transactional_id=None, name="coordinator")
        producer.produce(control_topic("shop"), 0, key, value)
        producer.flush(1.0)
        producer.close()


@pytest.fixture
def world():
    return Tail()


def test_what_is_written_is_seen_and_told_once(world):
    world.create()
    world.assign(1, "a")
    world.tail.step()
    assert world.tail.view.of(TASK).owner == "a"
    assert world.changes == 1
    world.tail.step()
    assert world.changes == 1
    world.assign(2, "b")
    world.tail.step()
    assert (world.tail.view.of(TASK).owner, world.changes) == ("b", 2)


def test_the_end_of_the_log_is_asked_for_again_and_again(world):
    world.create()
    assert world.tail.caught_up_s is None
    world.tail.step()
    first = world.tail.caught_up_s
    assert first is not None
    world.kafka.clock.advance(control_tail.RENEW_S)
    world.tail.step()
    assert world.tail.caught_up_s >= first + control_tail.RENEW_S


def test_a_log_that_is_not_there_yet_is_waited_for(world):
    world.tail.step()
    assert world.tail.caught_up_s is None
    world.create()
    world.assign(1, "a")
    world.tail.step()
    assert world.tail.view.of(TASK).owner == "a"


def test_while_the_broker_is_away_the_view_stays_and_the_lease_runs_out(world):
    world.create()
    world.assign(1, "a")
    world.tail.step()
    seen_s = world.tail.caught_up_s
    for _ in range(5):
        world.kafka.fail_next("consume", KafkaUnavailableError("no broker"))
        world.tail.step()
    assert world.tail.view.of(TASK).owner == "a"
    assert world.tail.caught_up_s == seen_s
    world.assign(2, "b")
    world.tail.step()
    assert world.tail.view.of(TASK).owner == "b"


def test_a_record_that_can_t_be_understood_ends_it(world):
    world.create()
    world.write(b"task/count/3", b"{}")
    world.tail.start()
    world.tail.join(10)
    assert isinstance(world.tail.failure, CodecError)


def test_an_error_that_nobody_foresaw_is_a_failure_too(world):
    world.create()
    world.kafka.fail_next("consume", ZeroDivisionError("a fault of the client"))
    world.tail.start()
    world.tail.join(10)
    assert isinstance(world.tail.failure, ZeroDivisionError)
    assert world.changes == 1


def test_a_log_that_was_made_anew_ends_it_and_renews_no_lease(world):
    world.create()
    world.assign(1, "a")
    world.tail.step()
    seen_s = world.tail.caught_up_s
    world.kafka.recreate(control_topic("shop"))
    world.kafka.clock.advance(control_tail.RENEW_S)
    world.tail.start()
    world.tail.join(10)
    assert isinstance(world.tail.failure, TopicMismatchError)
    assert world.tail.caught_up_s == seen_s
