# ruff: noqa: ARG002 - time-outs belong to the interface; the fake never waits
"""The consumer of the fake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

from statemgr.errors import InputLostError, KafkaUnavailableError
from statemgr.kafka.ports import Bounds, Committed, Message
from statemgr.testing.cluster import Cluster
from statemgr.testing.partition_log import Entry, OutOfRangeError
from statemgr.types import TopicPartition
from towpath_native.records import Records

CREATE_TIME = 1
"""Kind of a timestamp that the producer's clock set."""

LOG_APPEND_TIME = 2
"""Kind of a timestamp that the broker's clock set."""

T = TypeVar("T")


class FakeMessage:
    """A record with the methods of ``confluent_kafka.Message``."""

    __slots__ = ("_at", "_entry", "_kind")

    def __init__(self, at: TopicPartition, entry: Entry, kind: int) -> None:
        self._at = at
        self._entry = entry
        self._kind = kind

    def topic(self) -> str:
        """Topic."""
        return self._at.topic

    def partition(self) -> int:
        """Partition."""
        return self._at.partition

    def offset(self) -> int:
        """Offset."""
        return self._entry.offset

    def key(self) -> bytes | None:
        """Key."""
        return self._entry.key

    def value(self) -> bytes | None:
        """Value; None is a tombstone."""
        return self._entry.value

    def headers(self) -> list[tuple[str, bytes]] | None:
        """Headers; None if there are none."""
        return list(self._entry.headers) or None

    def timestamp(self) -> tuple[int, int]:
        """Kind and milliseconds since the epoch."""
        return self._kind, self._entry.timestamp_ms

    def error(self) -> None:
        """Errors are raised by ``consume``, never handed over."""
        return

    def __repr__(self) -> str:
        return f"<{self._at}@{self._entry.offset} {self._entry.key!r:.40}>"


class FakeConsumer:
    """Implements :class:`~statemgr.kafka.ports.Consumer` on a :class:`~statemgr.testing.cluster.Cluster`."""

    def __init__(self, cluster: Cluster, name: str, *, read_committed: bool, columns: bool = False) -> None:
        self.name = name
        self._columns = columns
        self._cluster = cluster
        self._read_committed = read_committed
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()
        self._ends: dict[TopicPartition, int] = {}
        self._turn = 0

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Replace the assignment; every partition starts unpaused."""

        def act() -> None:
            self._positions = dict(positions)
            self._paused.clear()

        self._step("assign", act)

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        """Add partitions; one that is assigned already is moved to the new offset."""

        def act() -> None:
            self._positions.update(positions)
            self._paused.difference_update(positions)

        self._step("add", act)

    def remove(self, partitions: Sequence[TopicPartition]) -> None:
        """Drop partitions; unknown ones are passed over."""

        def act() -> None:
            for partition in partitions:
                self._positions.pop(partition, None)
                self._paused.discard(partition)

        self._step("remove", act)

    def warm(self, partitions: Sequence[TopicPartition]) -> None:
        """Nothing is cold here."""

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop delivering these partitions."""
        self._step("pause", lambda: self._paused.update(each for each in partitions if each in self._positions))

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Deliver these partitions again."""
        self._step("resume", lambda: self._paused.difference_update(partitions))

    def consume(self, max_records: int, timeout_s: float) -> Sequence[Message]:
        """Whatever is there, at most ``max_records``; if nothing is, the clock advances by ``timeout_s`` instead.

        Partitions take turns in being first.
        """
        messages = self._step("consume", lambda: self._consume(max_records, timeout_s))
        return cast("Sequence[Message]", Records.of(messages)) if self._columns else messages

    def _consume(self, max_records: int, timeout_s: float) -> list[Message]:
        self._cluster.pass_time()
        messages: list[Message] = []
        active = sorted(each for each in self._positions if each not in self._paused)
        first = self._turn % len(active) if active else 0
        self._turn += 1
        for partition in active[first:] + active[:first]:
            if len(messages) == max_records:
                break
            messages += self._read(partition, max_records - len(messages), have=bool(messages))
        if not messages:
            self._cluster.clock.advance(timeout_s)
        return messages

    def _read(self, partition: TopicPartition, limit: int, *, have: bool) -> list[Message]:
        position = self._positions[partition]
        log = self._cluster.log(partition)
        try:
            entries, self._positions[partition] = log.read(position, limit, read_committed=self._read_committed)
        except OutOfRangeError:
            if have:
                return []
            start, end = log.bounds
            raise InputLostError(
                f"{partition}: offset {position} can't be read, the log holds {start} … {end}; the records were "
                "deleted by retention or the topic was made anew: choose to skip them, or restore the topic"
            ) from None
        self._ends[partition] = log.bounds.end
        kind = LOG_APPEND_TIME if self._cluster.topics[partition.topic].append_time else CREATE_TIME
        return [FakeMessage(partition, entry, kind) for entry in entries]

    def position(self, partition: TopicPartition) -> int | None:
        """Next offset to be read; None if not assigned."""
        return self._step("position", lambda: self._positions.get(partition))

    def lag(self, partition: TopicPartition) -> int | None:
        """Offsets from the position to the high watermark, as of the newest read; no call that could fail."""
        position, end = self._positions.get(partition), self._ends.get(partition)
        return max(0, end - position) if position is not None and end is not None else None

    def bounds(self, partition: TopicPartition, timeout_s: float) -> Bounds:
        """Log start and high watermark."""
        return self._step("bounds", lambda: self._bounds(partition))

    def _bounds(self, partition: TopicPartition) -> Bounds:
        self._cluster.pass_time()
        return self._cluster.log(partition).bounds

    def committed(
        self, group: str, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Committed]:
        """Stable committed offsets: waits for transactions by advancing the clock.

        Raises:
            KafkaUnavailableError: a transaction with offsets of this group is still open after ``timeout_s``.
        """
        return self._step("committed", lambda: self._committed(group, partitions, timeout_s))

    def _committed(
        self, group: str, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Committed]:
        if self._cluster.unstable(group):
            self._cluster.clock.advance(timeout_s)
            if self._cluster.unstable(group):
                raise KafkaUnavailableError(f"offsets of group {group} are not stable after {timeout_s:g} s")
        nothing = Committed(None, "")
        return {each: self._cluster.group_offsets.get((group, each), nothing) for each in partitions}

    def close(self) -> None:
        """Free the client."""
        self._positions.clear()

    def _step(self, call: str, act: Callable[[], T]) -> T:
        fault = self._cluster.faults.enter(self.name, call)
        result = act()
        self._cluster.faults.leave(fault, self.name)
        return result
