"""How much there is to restore: read from the topic itself, the same way for every system."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass

from statemgr.kafka.ports import Kafka
from statemgr.types import TopicPartition
from tests.harness.waiting import wait_for

_LIMIT_S = 120.0
"""For a million records: two seconds on an idle machine."""

_BATCH = 50_000
_WAIT_S = 0.1


@dataclass(frozen=True)
class Size:
    """Records, and bytes of their keys and values."""

    records: int
    bytes: int


def changelog_size(kafka: Kafka, topic: str, ends: Mapping[int, int]) -> Size:
    """What a read_committed reader gets of some partitions.

    Args:
        kafka: the cluster.
        topic: the changelog.
        ends: partition → offset to read to, exclusive.
    """
    records = size = 0
    left = {TopicPartition(topic, number) for number in ends}
    with contextlib.closing(kafka.consumer(read_committed=True, name="bench-size")) as consumer:
        consumer.assign(dict.fromkeys(left, 0))

        def look() -> bool:
            nonlocal records, size
            for message in consumer.consume(_BATCH, _WAIT_S):
                if message.offset() < ends[message.partition()]:
                    records += 1
                    size += len(message.key() or b"") + len(message.value() or b"")
            passed = [at for at in left if (consumer.position(at) or 0) >= ends[at.partition]]
            consumer.remove(passed)
            left.difference_update(passed)
            return not left

        wait_for(f"{topic} is read", look, _LIMIT_S, lambda: f"left: {left}")
    return Size(records, size)
