"""Reading topics of a real broker to their end."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from statemgr.kafka.confluent import ConfluentKafka
from statemgr.kafka.ports import Message
from statemgr.types import TopicPartition
from tests.harness.waiting import wait_for

READ_LIMIT_S = 30.0
"""For reading a topic: a second for 300,000 records, or ten until an open transaction has timed out."""

_QUERY_S = 10.0
_BATCH = 100_000


def partitions_of(kafka: ConfluentKafka, topic: str) -> list[TopicPartition]:
    """The partitions of a topic."""
    with contextlib.closing(kafka.admin()) as admin:
        found = admin.describe([topic], _QUERY_S)
    assert topic in found, f"there is no topic {topic}"
    return [TopicPartition(topic, number) for number in range(found[topic].partitions)]


def read_topic(bootstrap: str, topic: str, *, read_committed: bool = True) -> list[Message]:
    """All records of a topic, each partition's in order; ends when each position has passed its partition's end."""
    kafka = ConfluentKafka(bootstrap)
    partitions = partitions_of(kafka, topic)
    consumer = kafka.consumer(read_committed=read_committed, name="tests-reader")
    with contextlib.closing(consumer):
        ends = {partition: consumer.bounds(partition, _QUERY_S).end for partition in partitions}
        consumer.assign(dict.fromkeys(partitions, 0))
        records: list[Message] = []

        def behind() -> dict[TopicPartition, tuple[int | None, int]]:
            positions = {partition: consumer.position(partition) for partition in partitions}
            return {at: (position, ends[at]) for at, position in positions.items() if (position or 0) < ends[at]}

        def look() -> bool:
            records.extend(consumer.consume(_BATCH, 0.1))
            return not behind()

        wait_for(f"{topic} is read to its end", look, READ_LIMIT_S, lambda: f"position and end: {behind()}")
        return records


class GroupLag:
    """How far the committed offsets of a group are behind the ends of the topics that it reads."""

    def __init__(self, bootstrap: str, group: str, topics: Sequence[str]) -> None:
        self._kafka = ConfluentKafka(bootstrap)
        self._group = group
        self._partitions = [at for topic in topics for at in partitions_of(self._kafka, topic)]
        self._consumer = self._kafka.consumer(name="tests-lag")

    def of_partitions(self) -> dict[TopicPartition, int]:
        """Partition → lag, where there is any."""
        committed = self._consumer.committed(self._group, self._partitions, _QUERY_S)
        lags = {}
        for partition in self._partitions:
            bounds = self._consumer.bounds(partition, _QUERY_S)
            offset = committed[partition].offset
            lags[partition] = bounds.end - (bounds.start if offset is None else offset)
        return {partition: lag for partition, lag in lags.items() if lag}

    def close(self) -> None:
        """Free the client."""
        self._consumer.close()
