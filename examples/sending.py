"""Writes an example's input to a topic."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from statemgr.kafka.confluent import ConfluentKafka
from statemgr.kafka.ports import TopicSpec

CALL_LIMIT_S = 20.0
"""For a broker that is busy starting other things."""

FLUSH_LIMIT_S = 60.0
QUEUED = 1_000
"""Records between two looks at the clock, and two flushes: few enough to be sent evenly, many enough to be quick."""

Sent = tuple[int | None, Mapping[str, Any]]
"""Where a record goes (a number, which is taken modulo the partitions; None: to each of them), and its fields."""


def send(bootstrap: str, topic: str, records: Iterable[Sent], *, partitions: int, rate: float | None = None) -> int:
    """Write records in their order.

    Args:
        bootstrap: the broker.
        topic: made if it does not exist.
        records: what to write, as JSON objects.
        partitions: of the topic if it is made.
        rate: records a second; None: as fast as they go.

    Returns:
        Number of records written.
    """
    kafka = ConfluentKafka(bootstrap)
    count = _partitions(kafka, topic, partitions)
    sent, began_s = 0, time.monotonic()
    step = QUEUED if rate is None else max(1, min(QUEUED, int(rate / 20)))
    with contextlib.closing(kafka.producer(transactional_id=None, name="examples")) as producer:
        for place, fields in records:
            value = msgspec.json.encode(fields)
            for partition in range(count) if place is None else [place % count]:
                producer.produce(topic, partition, None, value)
                sent += 1
            if sent % step == 0:
                producer.flush(FLUSH_LIMIT_S)
                time.sleep(0 if rate is None else max(0.0, began_s + sent / rate - time.monotonic()))
        producer.flush(FLUSH_LIMIT_S)
    return sent


def _partitions(kafka: ConfluentKafka, topic: str, wanted: int) -> int:
    with contextlib.closing(kafka.admin()) as admin:
        found = admin.describe([topic], CALL_LIMIT_S)
        if topic in found:
            return found[topic].partitions
        admin.create([TopicSpec(topic, wanted)], -1, CALL_LIMIT_S)
    return wanted
