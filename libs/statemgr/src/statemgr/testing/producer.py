# ruff: noqa: ARG002 - time-outs belong to the interface; the fake never waits
"""The producer of the fake."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TypeVar

from statemgr.errors import ProducerLostError, RecordTooLargeError, StateError, TopicMissingError
from statemgr.kafka.ports import Committed, DeliveryCallback
from statemgr.kafka.settings import CLIENT_RECORD_BYTES, RECORD_OVERHEAD_BYTES
from statemgr.partitioner import partition_of
from statemgr.testing.cluster import Cluster
from statemgr.testing.partition_log import Outcome, Transaction
from statemgr.types import TopicPartition

BATCH_OVERHEAD_BYTES = 61
"""Header of a record batch, which counts against ``max.message.bytes``."""

T = TypeVar("T")


class Phase(Enum):
    """Where a producer stands; illegal calls end it, as they do in the real client."""

    NEW = "new"
    READY = "ready"
    OPEN = "in a transaction"
    LOST = "lost"


class FakeProducer:
    """Implements :class:`~statemgr.kafka.ports.Producer` on a :class:`~statemgr.testing.cluster.Cluster`.

    Records reach the log at once, as with a linger of 0. As in the real client, ``produce`` itself does not report
    a fence: the next call does. Delivery callbacks are served by ``flush``, ``commit`` and ``abort``.
    """

    def __init__(self, cluster: Cluster, name: str, transactional_id: str | None) -> None:
        self.name = name
        self._cluster = cluster
        self._id = transactional_id
        self._epoch = -1
        self._phase = Phase.NEW if transactional_id is not None else Phase.OPEN
        self._lost = ""
        self._failure: StateError | None = None
        self._reports: list[tuple[DeliveryCallback, int]] = []
        self._round_robin = 0

    def init_transactions(self, timeout_s: float) -> None:
        """Fence every other producer of this transactional id and end its transaction."""

        def act() -> None:
            self._expect("init_transactions", Phase.NEW)
            self._epoch = self._cluster.init(self._transactional_id)
            self._phase = Phase.READY

        self._step("init_transactions", act)

    def warm(self, topics: Sequence[str], group: str = "") -> None:
        """Nothing is cold here."""

    def begin(self) -> None:
        """Begin a transaction: nothing reaches the broker yet."""

        def act() -> None:
            self._expect("begin", Phase.READY)
            self._phase = Phase.OPEN

        self._step("begin", act)

    def produce(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes]] = (),
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        """Append one record to an explicit partition."""
        self._step("produce", lambda: self._produce(topic, partition, key, value, tuple(headers), on_delivery))

    def produce_batch(
        self, topic: str, partition: int, keys: Sequence[bytes | None] | None, values: Sequence[bytes | None]
    ) -> None:
        """Append records to one partition; ``partition=-1`` lets murmur2 choose by key, keyless ones take turns."""
        if keys is not None and len(keys) != len(values):
            raise ValueError(f"{len(keys)} keys for {len(values)} values")

        def act() -> None:
            too_large = []
            for key, value in zip([None] * len(values) if keys is None else keys, values, strict=True):
                try:
                    self._produce(topic, partition, key, value, (), None)
                except RecordTooLargeError as error:
                    too_large.append(str(error))
            if too_large:
                raise RecordTooLargeError(f"{', '.join(too_large)}; all other records of the batch are queued")
            self._raise_failure()

        self._step("produce_batch", act)

    def flush(self, timeout_s: float) -> None:
        """Serve the delivery callbacks."""

        def act() -> None:
            self._serve_reports()
            self._raise_failure()

        self._step("flush", act)

    def send_offsets(self, offsets: Mapping[TopicPartition, tuple[int, str]], group: str, timeout_s: float) -> None:
        """Add group offsets with metadata to the transaction."""

        def act() -> None:
            self._expect("send_offsets", Phase.OPEN)
            if offsets:
                transaction = self._cluster.write(self._transactional_id, self._epoch, None)
                pending = transaction.offsets.setdefault(group, {})
                pending.update({at: Committed(offset, text) for at, (offset, text) in offsets.items()})

        self._step("send_offsets", act)

    def commit(self, timeout_s: float) -> None:
        """Commit; readers see it ``marker_lag_s`` later."""

        def act() -> None:
            self._expect("commit", Phase.OPEN)
            self._raise_failure()
            self._cluster.end(self._transactional_id, self._epoch, Outcome.COMMITTED)
            self._phase = Phase.READY
            self._serve_reports()

        self._step("commit", act)

    def abort(self, timeout_s: float) -> None:
        """Abort."""

        def act() -> None:
            self._expect("abort", Phase.OPEN)
            self._cluster.end(self._transactional_id, self._epoch, Outcome.ABORTED)
            self._phase = Phase.READY
            self._failure = None
            self._serve_reports()

        self._step("abort", act)

    def close(self) -> None:
        """Abort the open transaction, if this producer is still the current one."""
        if self._id is not None and self._phase is Phase.OPEN:
            try:
                self._cluster.end(self._id, self._epoch, Outcome.ABORTED)
            except ProducerLostError:
                self._lost = "fenced"
        self._phase = Phase.LOST
        self._lost = self._lost or "closed"

    @property
    def _transactional_id(self) -> str:
        if self._id is None:
            raise ProducerLostError("this producer was made without a transactional id")
        return self._id

    def _produce(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes], ...],
        on_delivery: DeliveryCallback | None,
    ) -> None:
        self._expect("produce", Phase.OPEN)
        size = len(key or b"") + len(value or b"") + sum(len(name) + len(text) for name, text in headers)
        if size + RECORD_OVERHEAD_BYTES > CLIENT_RECORD_BYTES:
            raise RecordTooLargeError(f"record of {size} bytes with key {key!r:.80}")
        if self._failure is not None:
            return
        try:
            at = TopicPartition(topic, self._choose(topic, key) if partition < 0 else partition)
            offset = self._append(at, key, value, headers, size)
        except TopicMissingError as error:
            self._failure = ProducerLostError(f"delivery to {topic}: {error}")
        except (ProducerLostError, RecordTooLargeError) as error:
            self._failure = error
        else:
            if on_delivery is not None:
                self._reports.append((on_delivery, offset))

    def _append(
        self,
        at: TopicPartition,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[tuple[str, bytes], ...],
        size: int,
    ) -> int:
        self._cluster.pass_time()
        log = self._cluster.log(at)
        topic = self._cluster.topics[at.topic]
        if size + BATCH_OVERHEAD_BYTES > topic.max_record_bytes:
            raise RecordTooLargeError(f"delivery to {at.topic}: record of {size} bytes is too large for the topic")
        if topic.compacted and key is None:
            raise ProducerLostError(f"delivery to {at.topic}: a compacted topic takes no record without a key")
        transaction: Transaction | None = None
        if self._id is not None:
            transaction = self._cluster.write(self._id, self._epoch, at)
        return log.append(key, value, headers, self._cluster.clock.wall_ms(), transaction)

    def _choose(self, topic: str, key: bytes | None) -> int:
        count = self._cluster.topics[topic].info.partitions if topic in self._cluster.topics else 1
        if key is not None:
            return partition_of(key, count)
        self._round_robin += 1
        return (self._round_robin - 1) % count

    def _serve_reports(self) -> None:
        reports, self._reports = self._reports, []
        for on_delivery, offset in reports:
            on_delivery(offset)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _expect(self, call: str, phase: Phase) -> None:
        if self._phase is not phase:
            raise ProducerLostError(f"{call}: not valid while the producer is {self._phase.value}")

    def _step(self, call: str, act: Callable[[], T]) -> T:
        if self._phase is Phase.LOST:
            raise ProducerLostError(self._lost)
        fault = self._cluster.faults.enter(self.name, call)
        try:
            if isinstance(self._failure, ProducerLostError):
                raise self._failure
            result = act()
            self._cluster.faults.leave(fault, self.name)
        except (ProducerLostError, RecordTooLargeError) as error:
            if isinstance(error, ProducerLostError) or error is self._failure:
                self._phase, self._lost = Phase.LOST, str(error)
            raise
        return result
