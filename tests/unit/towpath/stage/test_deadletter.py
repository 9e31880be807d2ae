from __future__ import annotations

from collections.abc import Mapping

import pytest

from statemgr.kafka.ports import TopicSpec
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TopicPartition
from tests.unit.towpath.stage.plans import APP, DEAD, SOURCE, pass_stage
from towpath.stage.deadletter import DeadLetters
from towpath.stage.letter import CUT_COST_BYTES, HEADER_COST_BYTES, REASON_BYTES
from towpath.stage.metrics import StageMetrics
from towpath.stage.router import MAX_RECORD_BYTES, OVERHEAD_BYTES
from towpath.stage.settings import Guarantee
from towpath.stage.transaction import Transactor
from towpath.testing.records import Record, read_records


class Desk:
    """A dead-letter writer with a transaction of its own."""

    def __init__(self, guarantee: Guarantee = Guarantee.EXACTLY_ONCE, config: Mapping[str, str] | None = None) -> None:
        self.kafka = FakeKafka()
        admin = self.kafka.admin()
        admin.create([TopicSpec(SOURCE, 2), TopicSpec(DEAD, 1, config or {})], 1, 1.0)
        self.transactor = Transactor(self.kafka, "app", "id", "pass-0", guarantee, self.kafka.clock)
        self.transactor.fence(lambda: False)
        self.metrics = StageMetrics("pass", "pass-0")
        self.letters = DeadLetters(pass_stage(), "pass-0", self.transactor, self.metrics, self.kafka.clock)
        self.letters.fit(admin.describe([DEAD], 1.0)[DEAD])

    def take(self, key: bytes | None, value: bytes | None, partition: int = 1) -> None:
        """Write an input record and set it aside."""
        writer = self.kafka.producer(transactional_id=None, name="writer")
        writer.produce(SOURCE, partition, key, value)
        consumer = self.kafka.consumer(name="reader")
        consumer.assign({TopicPartition(SOURCE, partition): 0})
        (message,) = consumer.consume(10, 0.0)
        self.letters.record(message, "not JSON")

    def sent(self) -> list[Record]:
        self.transactor.commit([], {}, APP)
        return read_records(self.kafka, DEAD, None)


@pytest.mark.parametrize("guarantee", Guarantee)
def test_a_dead_letter_is_in_the_transaction_whatever_the_guarantee(guarantee: Guarantee) -> None:
    desk = Desk(guarantee)
    desk.take(b"k", b"{")
    assert read_records(desk.kafka, DEAD, None) == []
    assert len(desk.sent()) == 1


def test_a_record_keeps_key_value_and_origin_beside_the_reason() -> None:
    desk = Desk()
    desk.take(b"k", b"{")
    (record,) = desk.sent()
    assert (record.key, record.value) == (b"k", b"{")
    assert record.headers == {
        "stage": "pass",
        "replica": "pass-0",
        "topic": SOURCE,
        "partition": "1",
        "offset": "0",
        "reason": "not JSON",
    }


def test_a_tombstone_stays_a_tombstone() -> None:
    desk = Desk()
    desk.take(b"k", None)
    assert [(record.key, record.value) for record in desk.sent()] == [(b"k", None)]


def test_a_row_has_the_partition_of_its_task_and_no_key() -> None:
    desk = Desk()
    desk.letters.row(7, b'{"a": 1}', "ValueError: no")
    (record,) = desk.sent()
    assert (record.key, record.value, record.headers["partition"]) == (None, b'{"a": 1}', "7")
    assert "offset" not in record.headers


def size(record: Record) -> int:
    """Bytes that count against the topic's limit."""
    headers = sum(len(name) + len(text.encode()) + HEADER_COST_BYTES for name, text in record.headers.items())
    return len(record.key or b"") + len(record.value or b"") + headers


def test_as_much_of_a_large_value_is_kept_as_fits_and_the_header_says_how_large_it_was() -> None:
    desk = Desk()
    desk.letters.row(0, b"x" * 2 * MAX_RECORD_BYTES, "too large")
    (record,) = desk.sent()
    assert MAX_RECORD_BYTES - CUT_COST_BYTES < size(record) <= MAX_RECORD_BYTES
    assert record.headers["truncated_from_bytes"] == str(2 * MAX_RECORD_BYTES)


def test_a_value_that_fits_is_kept_whole() -> None:
    desk = Desk()
    desk.letters.row(0, b"x" * 900_000, "too large for another topic")
    (record,) = desk.sent()
    assert len(record.value) == 900_000
    assert "truncated_from_bytes" not in record.headers


@pytest.mark.parametrize("limit", [500_000, 20_000, 3_000, 1_300])
def test_a_dead_letter_is_cut_to_what_its_topic_takes(limit: int) -> None:
    desk = Desk(config={"max.message.bytes": str(limit)})
    desk.take(b"k" * 490_000, b"v" * 490_000)
    desk.letters.row(0, b"x" * 600_000, "r" * 10_000)
    record, row = desk.sent()
    assert record.headers["truncated_from_bytes"] == record.headers["key_truncated_from_bytes"] == "490000"
    assert row.headers["truncated_from_bytes"] == "600000"
    assert max(size(record), size(row)) <= limit - OVERHEAD_BYTES
    assert len(record.value) >= len(record.key or b"")


def test_a_record_that_is_nearly_all_key_keeps_its_value_whole() -> None:
    desk = Desk()
    desk.take(b"k" * 980_000, b"v" * 40_000)
    (record,) = desk.sent()
    assert len(record.value) == 40_000
    assert MAX_RECORD_BYTES - CUT_COST_BYTES < size(record) <= MAX_RECORD_BYTES
    assert record.headers["key_truncated_from_bytes"] == "980000"


def test_a_long_reason_is_cut() -> None:
    desk = Desk()
    desk.letters.row(0, b"{}", "r" * 10_000)
    assert len(desk.sent()[0].headers["reason"]) == REASON_BYTES


def test_a_reason_that_is_cut_within_a_character_or_is_no_text_can_still_be_read() -> None:
    desk = Desk()
    desk.letters.row(0, b"{}", "ä" + "r" * (REASON_BYTES - 2) + "ä")
    desk.letters.row(0, b"{}", "half a pair \ud800")
    assert [record.headers["reason"][:4] for record in desk.sent()] == ["ärrr", "half"]


def test_each_is_counted() -> None:
    desk = Desk()
    desk.letters.row(0, b"{}", "one")
    desk.letters.row(0, b"{}", "two")
    labels = {"stage": "pass", "replica": "pass-0"}
    assert desk.metrics.registry.get_sample_value("towpath_dead_letters_total", labels) == 2
