"""The reader of the control log."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from statemgr.control.log import COMPARE_S, ControlReader
from statemgr.control.records import ControlRecord, Fenced, Leader, control_key, encode_control
from statemgr.errors import (
    CodecError,
    KafkaUnavailableError,
    RestoreStalledError,
    TopicMismatchError,
    TopicMissingError,
)
from statemgr.kafka.ports import TopicSpec
from statemgr.testing.kafka import FakeKafka

TOPIC = "app.control"


class Spawned:
    """Work beside the caller, which ends when the test says so."""

    def __init__(self) -> None:
        self.works: list[Later] = []

    def __call__(self, work: Callable[[], Any]) -> Later:
        self.works.append(Later(work))
        return self.works[-1]

    def finish(self) -> None:
        for later in self.works:
            later.ended = True


class Later:
    def __init__(self, work: Callable[[], Any]) -> None:
        self.ended = False
        self.result = work

    def done(self) -> bool:
        return self.ended


def make(kafka: FakeKafka) -> None:
    kafka.admin().create([TopicSpec(TOPIC, 1, {"cleanup.policy": "compact"})], 1, 1.0)


def write(kafka: FakeKafka, *records: ControlRecord) -> None:
    producer = kafka.producer(transactional_id="writer", name="writer")
    producer.init_transactions(1.0)
    producer.begin()
    for record in records:
        producer.produce(TOPIC, 0, control_key(record), encode_control(record))
    producer.commit(1.0)


def reader(kafka: FakeKafka) -> ControlReader:
    return ControlReader(kafka, "app", "reader", kafka.clock)


def test_a_log_that_is_made_later_is_read_from_its_beginning():
    kafka = FakeKafka()
    control = reader(kafka)
    with pytest.raises(TopicMissingError):
        control.read_to_end()
    make(kafka)
    control.read_to_end()
    write(kafka, Leader(1, "one"))
    control.poll()
    assert control.view.term == 1


def test_reading_to_the_end_reads_what_was_written_before_it_was_asked_for():
    kafka = FakeKafka()
    make(kafka)
    control = reader(kafka)
    write(kafka, Leader(1, "one"), Fenced("count", "a", 1))
    control.read_to_end()
    assert ("count", "a") in control.view.fenced
    assert control.caught_up_s is not None


def test_compaction_behind_the_reader_loses_nothing():
    kafka = FakeKafka()
    make(kafka)
    control = reader(kafka)
    for term in range(1, 6):
        write(kafka, Leader(term, "one"))
    kafka.compact(TOPIC)
    control.read_to_end()
    assert control.view.term == 5


def test_records_deleted_below_the_position_let_the_reader_go_on_behind_them():
    kafka = FakeKafka()
    make(kafka)
    control = reader(kafka)
    control.read_to_end()
    for term in range(1, 4):
        write(kafka, Leader(term, "one"))
    kafka.delete_records(TOPIC, 0, 4)
    control.read_to_end()
    assert control.view.term == 3


def test_a_record_that_cannot_be_understood_stops_the_reader():
    kafka = FakeKafka()
    make(kafka)
    producer = kafka.producer(transactional_id=None, name="stranger")
    producer.produce(TOPIC, 0, b"leader", b"{}")
    producer.flush(1.0)
    with pytest.raises(CodecError, match="not a control record"):
        reader(kafka).read_to_end()


def test_an_open_transaction_ends_the_reading_with_its_name():
    kafka = FakeKafka()
    make(kafka)
    producer = kafka.producer(transactional_id="writer", name="writer")
    producer.init_transactions(1.0)
    producer.begin()
    producer.produce(TOPIC, 0, b"leader", encode_control(Leader(1, "one")))
    producer.flush(1.0)
    control = reader(kafka)
    with pytest.raises(RestoreStalledError, match="a transaction may be open"):
        control.read_to_end(timeout_s=0.5)


@pytest.mark.parametrize("read", [ControlReader.poll, ControlReader.read_to_end], ids=["poll", "read_to_end"])
@pytest.mark.parametrize("again", [False, True], ids=["same client", "new client"])
def test_a_log_that_was_made_anew_and_is_shorter_stops_the_reader_by_name(read, again):
    kafka = FakeKafka()
    make(kafka)
    control = reader(kafka)
    write(kafka, Leader(1, "one"), Leader(1, "one"), Leader(2, "two"))
    control.read_to_end()
    seen_s = control.caught_up_s
    kafka.recreate(TOPIC)
    write(kafka, Leader(1, "three"))
    if again:
        control.close()
    with pytest.raises(TopicMismatchError, match=r"control log app\.control\[0\] ends at offset 2, but was read to 3"):
        read(control)
    assert (control.view.leader, control.caught_up_s) == ("two", seen_s)


@pytest.mark.parametrize("read", [ControlReader.poll, ControlReader.read_to_end], ids=["poll", "read_to_end"])
@pytest.mark.parametrize("again", [False, True], ids=["same client", "new client"])
def test_a_log_that_was_made_anew_and_is_longer_stops_the_reader_before_it_reads_on(read, again):
    kafka = FakeKafka()
    make(kafka)
    control = reader(kafka)
    write(kafka, Leader(1, "one"))
    control.read_to_end()
    seen_s = control.caught_up_s
    kafka.recreate(TOPIC)
    write(kafka, Leader(1, "three"), Leader(2, "three"), Leader(3, "three"))
    kafka.clock.advance(COMPARE_S)
    if again:
        control.close()
    with pytest.raises(TopicMismatchError, match=r"control log app\.control\[0\] was made anew .*stop all processes"):
        read(control)
    assert (control.view.leader, control.caught_up_s) == ("one", seen_s)


def test_who_must_not_wait_hears_of_a_log_that_was_made_anew_when_the_answer_has_come():
    kafka = FakeKafka()
    make(kafka)
    spawned = Spawned()
    control = ControlReader(kafka, "app", "reader", kafka.clock, spawned)
    write(kafka, Leader(1, "one"))
    control.read_to_end()
    kafka.recreate(TOPIC)
    kafka.clock.advance(COMPARE_S)
    write(kafka, *(Leader(1, "one") for _ in range(5)))
    control.poll()
    control.poll()
    assert len(spawned.works) == 1
    spawned.finish()
    with pytest.raises(TopicMismatchError, match="was made anew"):
        control.poll()


def test_a_question_for_the_topic_that_has_no_answer_stops_nobody():
    kafka = FakeKafka()
    make(kafka)
    control = reader(kafka)
    control.read_to_end()
    write(kafka, Leader(1, "one"))
    kafka.fail_next("describe", KafkaUnavailableError("no broker"))
    kafka.clock.advance(COMPARE_S)
    control.poll()
    assert control.view.leader == "one"


def test_a_question_for_the_topic_that_hangs_is_asked_no_more_often_than_one_that_is_answered():
    """Each hanging one holds its reader up."""
    kafka = FakeKafka()
    make(kafka)
    control = reader(kafka)
    control.read_to_end()
    asked = []

    def hang(client: str, call: str) -> None:
        if call == "describe":
            asked.append(kafka.clock.monotonic_s())
            kafka.clock.advance(1.0)
            raise KafkaUnavailableError("no broker")

    kafka.on_call(hang)
    kafka.clock.advance(COMPARE_S)
    for _ in range(40):
        control.poll()
        kafka.clock.advance(0.05)
    assert len(asked) == 2
    assert asked[1] - asked[0] >= 1.0 + COMPARE_S


def test_a_log_of_which_all_is_read_is_not_taken_for_another():
    kafka = FakeKafka()
    make(kafka)
    control = reader(kafka)
    write(kafka, Leader(1, "one"))
    control.read_to_end()
    control.close()
    control.read_to_end()
    assert control.poll() == []
