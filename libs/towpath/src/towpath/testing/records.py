"""What a read_committed reader finds in a topic, parsed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from statemgr.kafka.ports import Message
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TopicPartition
from towpath.operators.arrow_frames import decode_frame
from towpath.query.plan import Format, StagePlan

_MAX_RECORDS = 1_000_000
"""More than a test writes."""

_READER = "driver-reader"


@dataclass(frozen=True)
class Record:
    """One committed record, or one row of a record of an inner edge.

    Attributes:
        partition: where it is.
        offset: of the Kafka record; rows of an inner edge that came in one record share it.
        key: the record's key.
        value: dict of a JSON object or of an edge's row; bytes where the topic holds anything else.
        headers: name → text.
    """

    partition: int
    offset: int
    key: bytes | None
    value: Any
    headers: Mapping[str, str]


def topic_formats(stages: Iterable[StagePlan]) -> dict[str, Format]:
    """Topic → format of everything that the stages read or write."""
    formats: dict[str, Format] = {}
    for stage in stages:
        formats |= {item.topic: item.format for item in stage.inputs}
        formats |= {item.topic: item.format for item in stage.outputs}
    return formats


def read_records(kafka: FakeKafka, topic: str, form: Format | None) -> list[Record]:
    """All committed records of a topic: partition by partition, in offset order; none if there is no such topic."""
    info = kafka.admin().describe([topic], 1.0).get(topic)
    if info is None:
        return []
    consumer = kafka.consumer(name=_READER)
    found: list[Record] = []
    for partition in range(info.partitions):
        at = TopicPartition(topic, partition)
        consumer.assign({at: consumer.bounds(at, 1.0).start})
        for message in consumer.consume(_MAX_RECORDS, 0.0):
            found += _parsed(message, form)
    consumer.close()
    return found


def _parsed(message: Message, form: Format | None) -> list[Record]:
    headers = {name: text.decode() for name, text in message.headers() or ()}
    return [
        Record(message.partition(), message.offset(), message.key(), value, headers)
        for value in _values(message.value(), form)
    ]


def _values(value: bytes | None, form: Format | None) -> list[Any]:
    match form:
        case Format.JSON if value is not None:
            return [msgspec.json.decode(value)]
        case Format.ARROW:
            return decode_frame(value).to_dicts()
        case _:
            return [value]
