"""Topics of the benchmark's broker: making, filling, measuring, reading and removing them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from bench.peers.data import chunks
from bench.peers.model import PARTITIONS, Data, RunFailedError, Say
from statemgr.kafka.confluent import ConfluentKafka

_CALL_S = 30.0
_FLUSH_S = 120.0
_POLL_S = 0.2
_BATCH = 50_000
_SILENT_S = 30.0
"""Without a record although there must be one: a second is usual after the end of a transaction."""

_TOPIC = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}


class Topics:
    """The topics of one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        self._filled: set[str] = set()

    def create(self, name: str, partitions: int = PARTITIONS) -> None:
        """Make a topic and wait until it can be used."""
        self._admin.create_topics([NewTopic(name, partitions, 1, config=_TOPIC)])[name].result(_CALL_S)
        self.committed_ends(name, partitions)

    def names(self, part: str = "") -> list[str]:
        """Names of all topics that contain a text."""
        return sorted(name for name in self._admin.list_topics(timeout=_CALL_S).topics if part in name)

    def remove(self, part: str) -> None:
        """Remove all topics and groups whose names contain a text."""
        names = self.names(part)
        if names:
            for future in self._admin.delete_topics(names, operation_timeout=_CALL_S).values():
                with contextlib.suppress(Exception):  # one that its owner has just removed itself
                    future.result(_CALL_S)
        groups = self._admin.list_consumer_groups(request_timeout=_CALL_S).result(_CALL_S).valid
        ours = [group.group_id for group in groups if part in group.group_id]
        if ours:
            for future in self._admin.delete_consumer_groups(ours, request_timeout=_CALL_S).values():
                with contextlib.suppress(Exception):  # a member that was killed is there until its session ends
                    future.result(_CALL_S)

    def committed_ends(self, name: str, partitions: int = PARTITIONS) -> list[int]:
        """Per partition, the offset up to which a read_committed reader gets now; a topic may be in the making.

        Raises:
            RunFailedError: some partition has no leader that answers, for a long time.
        """
        deadline = time.monotonic() + _CALL_S
        while (ends := self._ends(name, partitions)) is None:
            if time.monotonic() > deadline:
                raise RunFailedError(f"topic {name} can't be used after {_CALL_S:g} s")
            time.sleep(_POLL_S)
        return ends

    def _ends(self, name: str, partitions: int) -> list[int] | None:
        """None while a partition has no leader that answers; then what the client knows of the topic is renewed."""
        asked: dict[TopicPartition, OffsetSpec] = {
            TopicPartition(name, number): OffsetSpec.latest()  # type: ignore[no-untyped-call]
            for number in range(partitions)
        }
        found = self._admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_CALL_S)
        try:
            return [future.result(_CALL_S).offset for future in found.values()]
        except KafkaException:
            self._admin.list_topics(name, timeout=_CALL_S)
            return None

    def consumed(self, group: str, topic: str, partitions: int = PARTITIONS) -> int:
        """Records of a topic that a group has taken, by its committed offsets; 0 if it has none."""
        parts = [TopicPartition(topic, number) for number in range(partitions)]
        asked = self._admin.list_consumer_group_offsets(
            [ConsumerGroupTopicPartitions(group, parts)], request_timeout=_CALL_S
        )
        try:
            found = asked[group].result(_CALL_S).topic_partitions
        except KafkaException:  # the group is not there yet
            return 0
        return sum(max(at.offset, 0) for at in found)

    def partition_count(self, name: str) -> int:
        """How many partitions a topic has."""
        return len(self._admin.list_topics(name, timeout=_CALL_S).topics[name].partitions)

    def records(self, name: str) -> int:
        """Number of committed records, markers left out."""
        partitions = self.partition_count(name)
        with Reader(self.bootstrap, name, partitions) as reader:
            return sum(len(batch) for batch in reader.until(self.committed_ends(name, partitions)))

    def preload(self, data: Data, events: int, partitions: int, say: Say) -> str:
        """Fill the source topic of a data set unless it is there; gives its name."""
        name = f"source-{data}-{events}-{partitions}"
        if name in self._filled:
            return name
        say(f"preloading {events:,} events of {data}")
        self.create(name, partitions)
        producer: Any = ConfluentKafka(self.bootstrap).producer(transactional_id=None, name="bench-preload")
        for chunk in chunks(data, events, partitions):
            values = chunk.values.to_pylist()
            keys = [None] * len(values) if chunk.keys is None else chunk.keys.to_pylist()
            for number, rows in _by_partition(chunk.partitions.tolist()).items():
                producer.produce_batch(name, number, [keys[row] for row in rows], [values[row] for row in rows])
        producer.flush(_FLUSH_S)
        producer.close()
        self._filled.add(name)
        return name


class Reader:
    """Reads a topic read_committed, from its beginning on, in steps."""

    def __init__(self, bootstrap: str, topic: str, partitions: int = PARTITIONS) -> None:
        self.topic = topic
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "log_level": 0,
                "group.id": "bench-reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "fetch.queue.backoff.ms": 5,
                "fetch.wait.max.ms": 20,
                "queued.max.messages.kbytes": 65_536,
            }
        )
        self._parts = [TopicPartition(topic, number, 0) for number in range(partitions)]
        self._consumer.assign(self._parts)
        self._ends: dict[int, int] = {}

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()

    def until(self, ends: Sequence[int]) -> Iterator[list[Any]]:
        """Batches of messages, until every position has reached its end; goes on where it stopped."""
        silent_since = time.monotonic()
        while not self._reached(ends):
            good = self.now(_POLL_S)
            if good:
                silent_since = time.monotonic()
                yield good
            elif time.monotonic() - silent_since > _SILENT_S:
                raise TimeoutError(f"nothing was read for {_SILENT_S:g} s before the ends {list(ends)}")

    def now(self, wait_s: float) -> list[Any]:
        """What there is, waiting at most so long for the first of it."""
        good = []
        messages: list[Any] = self._consumer.consume(_BATCH, wait_s)
        for message in messages:
            if message.error() is None:
                good.append(message)
            elif message.error().code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its only name
                self._ends[message.partition()] = message.offset()
        return good

    def _reached(self, ends: Sequence[int]) -> bool:
        """Whether all was read: a position does not pass what ends with a transaction's marker, an end does."""
        positions: Mapping[int, int] = {at.partition: at.offset for at in self._consumer.position(self._parts)}
        return all(
            end == 0 or max(positions[number], self._ends.get(number, 0)) >= end for number, end in enumerate(ends)
        )


def _by_partition(partitions: list[int]) -> dict[int, list[int]]:
    rows: dict[int, list[int]] = {}
    for row, partition in enumerate(partitions):
        rows.setdefault(partition, []).append(row)
    return rows
