"""What the library needs of Kafka, as small interfaces.

Two implementations satisfy one contract suite: :mod:`statemgr.kafka.confluent` (librdkafka) and
:mod:`statemgr.testing.kafka` (an in-memory log with transactions, fencing and compaction).

Messages stay in the client's own form (methods, not attributes), so that the data path makes no object per record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from statemgr.types import TopicPartition
from towpath_native.message import Message as Message  # a part of these interfaces


class Bounds(NamedTuple):
    """Log start and high watermark of a partition (both offsets; ``end`` is exclusive)."""

    start: int
    end: int


class Committed(NamedTuple):
    """A committed group offset with its metadata; ``offset`` is None where nothing is committed."""

    offset: int | None
    metadata: str


class Consumer(Protocol):
    """A manually assigned consumer: no group protocol, no automatic reset, no automatic commit."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Replace the assignment; each partition starts at its explicit offset."""
        ...

    def add(self, positions: Mapping[TopicPartition, int]) -> None:
        """Add partitions without disturbing the others."""
        ...

    def remove(self, partitions: Sequence[TopicPartition]) -> None:
        """Drop partitions without disturbing the others."""
        ...

    def warm(self, partitions: Sequence[TopicPartition]) -> None:
        """Learn leaders and open connections, so that a later :meth:`add` delivers as soon as one can be.

        To be called before anything is assigned; takes a moment, and fails silently.
        """
        ...

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop fetching these partitions."""
        ...

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch these partitions again."""
        ...

    def consume(self, max_records: int, timeout_s: float) -> Sequence[Message]:
        """Whatever is there, at most ``max_records``; waits up to ``timeout_s`` for the first.

        Raises:
            InputLostError: a position is outside the log (``auto.offset.reset=error``).
            TopicMissingError: an assigned topic or partition does not exist (any more).
            KafkaUnavailableError: the client reports a fatal error.

        Records that came together with an error are returned first; the next call raises it.
        """
        ...

    def position(self, partition: TopicPartition) -> int | None:
        """Next offset to be read; passes transaction markers; None while unknown."""
        ...

    def lag(self, partition: TopicPartition) -> int | None:
        """Offsets from the position to the high watermark, as of the newest fetch; None while unknown. Asks nobody."""
        ...

    def bounds(self, partition: TopicPartition, timeout_s: float) -> Bounds:
        """Log start and high watermark, asked as read_uncommitted whatever this consumer's isolation (R6)."""
        ...

    def committed(
        self, group: str, partitions: Sequence[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, Committed]:
        """Committed offsets of a group; stable only on a read_committed client after the fence (R6)."""
        ...

    def close(self) -> None:
        """Free the client."""
        ...


DeliveryCallback = Callable[[int], None]
"""Receives the offset of an acknowledged record."""


class Producer(Protocol):
    """A producer; transactional calls are only legal if it was made with a transactional id.

    Every call raises :class:`~statemgr.errors.ProducerLostError` for whatever is not plainly retriable (R4).
    A record above the *client's* limit raises :class:`~statemgr.errors.RecordTooLargeError` before it is queued; one
    that only the broker finds too large raises it at ``flush`` or ``commit``, and ends the instance.
    """

    def init_transactions(self, timeout_s: float) -> None:
        """Fence every other producer of this transactional id and wait for its transactions to end."""
        ...

    def warm(self, topics: Sequence[str], group: str = "") -> None:
        """Learn the leaders of these topics' partitions ahead; takes a moment, and fails silently.

        Args:
            topics: to be written to.
            group: whose offsets will be sent; empty: none's.
        """
        ...

    def begin(self) -> None:
        """Begin a transaction."""
        ...

    def produce(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes]] = (),
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        """Queue one record for an explicit partition."""
        ...

    def produce_batch(
        self, topic: str, partition: int, keys: Sequence[bytes | None] | None, values: Sequence[bytes | None]
    ) -> None:
        """Queue records for one partition; ``partition=-1`` lets Java's murmur2 partitioner choose by key.

        ``keys`` of None: no record has one.
        """
        ...

    def flush(self, timeout_s: float) -> None:
        """Wait until every queued record is acknowledged, and serve the delivery callbacks."""
        ...

    def send_offsets(self, offsets: Mapping[TopicPartition, tuple[int, str]], group: str, timeout_s: float) -> None:
        """Add group offsets with metadata to the transaction."""
        ...

    def commit(self, timeout_s: float) -> None:
        """Commit; returns only with a definite yes, and after all delivery callbacks of the transaction."""
        ...

    def abort(self, timeout_s: float) -> None:
        """Abort; returns only with a definite answer."""
        ...

    def close(self) -> None:
        """Free the client; queued records are dropped."""
        ...


@dataclass(frozen=True)
class TopicSpec:
    """A topic to be created or checked: partitions, and settings that must hold."""

    name: str
    partitions: int
    config: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class TopicInfo:
    """What exists: partition count, topic id (changes when a topic is made anew), effective settings."""

    name: str
    partitions: int
    topic_id: str
    config: Mapping[str, str]


class Admin(Protocol):
    """Topic administration."""

    def describe(self, names: Sequence[str], timeout_s: float) -> dict[str, TopicInfo]:
        """What exists among these names; a missing topic is absent from the answer."""
        ...

    def create(self, specs: Sequence[TopicSpec], replication: int, timeout_s: float) -> None:
        """Create topics; one that exists already is left as it is."""
        ...

    def close(self) -> None:
        """Free the client."""
        ...


class Kafka(Protocol):
    """Makes clients for one cluster."""

    def consumer(self, *, read_committed: bool = True, columns: bool = False, name: str) -> Consumer:
        """A new manually assigned consumer; ``name`` shows up as client id.

        With ``columns`` its records come as columns where the client can do that; they can be looked at one by one
        all the same.
        """
        ...

    def producer(self, *, transactional_id: str | None, name: str) -> Producer:
        """A new producer instance; idempotent, and transactional if an id is given."""
        ...

    def admin(self) -> Admin:
        """A new administration client."""
        ...
