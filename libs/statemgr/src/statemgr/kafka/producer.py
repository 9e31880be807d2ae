"""An idempotent, transactional producer by librdkafka, and its one error rule (R4)."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from confluent_kafka import Consumer, KafkaError, KafkaException
from confluent_kafka import Message as ClientMessage
from confluent_kafka import Producer as Client
from confluent_kafka import TopicPartition as ClientPartition

from statemgr.errors import RecordTooLargeError, RetryableKafkaError
from statemgr.kafka.classify import Reaction, Source, classify
from statemgr.kafka.deadline import within
from statemgr.kafka.guard import Guard
from statemgr.kafka.ports import DeliveryCallback
from statemgr.kafka.queueing import RecordBatch, Refused, queue_of
from statemgr.kafka.settings import TRANSACTION_TIMEOUT_MS
from statemgr.types import TopicPartition

if TYPE_CHECKING:
    import numpy.typing as npt

log = logging.getLogger("statemgr.kafka")

WARM_S = 0.5
"""How long to wait for a topic's metadata ahead of its first record."""

QUEUE_FULL_DEADLINE_S = TRANSACTION_TIMEOUT_MS / 1000
"""How long ``produce`` waits for room: afterwards the transaction has timed out anyway."""

QUEUE_POLL_S = 0.01
"""One wait for acknowledgements while the queue is full."""

RETRY_PAUSE_S = 0.005
"""Between two tries of a transactional call; the client has waited for its own back-off already."""

CLOSE_WAIT_S = 1.0
"""How long :meth:`ConfluentProducer.close` waits. Closing aborts an open transaction and has no time-out of its own:

with a stopped broker it was seen to take as long as the stop, so it goes on in the background after that.
"""

T = TypeVar("T")


class ConfluentProducer:
    """Implements :class:`~statemgr.kafka.ports.Producer`; for one thread.

    The first error that is not plainly retriable ends the instance: that call and all later ones raise
    :class:`~statemgr.errors.ProducerLostError`. A record that only the *broker* finds too large ends it too, because
    the sequence of that partition has a gap afterwards: the next transaction was seen to fail with "skipped sequence
    numbers".

    Delivery callbacks are served within ``commit`` and ``flush``: when ``commit`` has returned, all of that
    transaction's have run.
    """

    def __init__(self, settings: Mapping[str, Any], *, group_settings: Mapping[str, Any], bootstrap: str) -> None:
        self._transactional = "transactional.id" in settings
        self._bootstrap = bootstrap
        self._group_settings = group_settings
        self._groups: dict[str, Any] = {}
        self._guard = Guard()
        self._open = False
        self._closed = False
        config = {**settings, "error_cb": self._on_error}
        if not self._transactional:
            # A transaction's commit reports failed records by itself; without one only the reports tell. They cost
            # about 15 % of the throughput, so a transactional producer asks for them record by record.
            config["on_delivery"] = self._on_report
        self._client = Client(config)
        self._batches = queue_of(self._client, reports=not self._transactional)

    def init_transactions(self, timeout_s: float) -> None:
        """Fence every other producer of this transactional id and wait for its transactions to end.

        Raises:
            RetryableKafkaError: not done before the deadline; may be repeated on this or a new instance (R17).
            ProducerLostError: anything else.
        """
        self._guard.check()
        self._repeat("init_transactions", timeout_s, self._client.init_transactions, repeatable=True)

    def warm(self, topics: Sequence[str], group: str = "") -> None:
        """Learn the leaders of these topics' partitions, for which the first record of a topic would wait.

        The first offsets of a group would wait for a consumer to be made and closed.
        """
        with suppress(KafkaException):
            for topic in topics:
                self._client.list_topics(topic, timeout=WARM_S)
            if group:
                self._group(group)

    def begin(self) -> None:
        """Begin a transaction."""
        self._guard.check()
        self._guard.call("begin", self._client.begin_transaction)
        self._open = True

    def produce(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes]] = (),
        on_delivery: DeliveryCallback | None = None,
    ) -> None:
        """Queue one record for an explicit partition; waits for room in the queue.

        Raises:
            RecordTooLargeError: larger than the client's limit; the record was not queued, the transaction is intact.
            RetryableKafkaError: no room before the deadline; the record was not queued.
            ProducerLostError: anything else.
        """
        self._guard.check()
        options: dict[str, Any] = {"on_delivery": self._reporter(on_delivery)} if on_delivery is not None else {}
        if headers:
            options["headers"] = list(headers)
        deadline = 0.0
        while True:
            try:
                self._guard.call(f"produce to {topic}", self._client.produce, topic, value, key, partition, **options)
            except BufferError:
                deadline = deadline or time.monotonic() + QUEUE_FULL_DEADLINE_S
                self._make_room(deadline)
            else:
                return

    def produce_batch(
        self, topic: str, partition: int, keys: Sequence[bytes | None] | None, values: Sequence[bytes | None]
    ) -> None:
        """Queue records for one partition; ``partition=-1`` lets Java's murmur2 partitioner choose by key.

        ``keys`` of None: no record has one.

        Raises:
            ValueError: keys and values are not as many.
            RecordTooLargeError: names the records larger than the client's limit; all others are queued.
            RetryableKafkaError: no room before the deadline; names how many were queued (always a head of the batch).
            ProducerLostError: anything else.
        """
        self._guard.check()
        if keys is not None and len(keys) != len(values):
            raise ValueError(f"{len(keys)} keys for {len(values)} values")
        batch = self._batches.batch(keys, values)
        too_large: list[str] = []
        deadline = 0.0
        while len(batch):
            refused = self._guard.call(f"produce to {topic}", self._batches.queue, topic, partition, batch)
            batch = self._not_queued(topic, batch, refused, too_large)
            if len(batch):
                deadline = deadline or time.monotonic() + QUEUE_FULL_DEADLINE_S
                self._make_room(deadline)
        if too_large:
            raise RecordTooLargeError(f"{topic}: {', '.join(too_large)}; all other records of the batch are queued")
        self._guard.call("poll", self._client.poll, 0)
        self._guard.check()

    def _not_queued(
        self, topic: str, batch: RecordBatch, refused: Sequence[Refused], too_large: list[str]
    ) -> RecordBatch:
        """The tail that found the queue full, in order: once full, librdkafka refuses all that follow."""
        import numpy as np

        tail: list[npt.NDArray[np.intp]] = [np.empty(0, np.intp)]
        for error, places in refused:
            reaction = classify(error, Source.PRODUCER)
            if reaction is Reaction.RETRY:
                tail.append(places)
            elif reaction is Reaction.TOO_LARGE:
                too_large += [_described(*batch.record(place)) for place in places.tolist()]
            else:
                self._guard.refuse(f"produce to {topic}", error)
        return batch.some(np.sort(np.concatenate(tail)))

    def flush(self, timeout_s: float) -> None:
        """Wait until every queued record is acknowledged, and serve the delivery callbacks.

        Raises:
            RetryableKafkaError: some records are not acknowledged before the deadline.
            RecordTooLargeError: the broker refused a record for its size; the instance is lost.
            ProducerLostError: a record failed, or anything else.
        """
        self._guard.check()
        left = self._guard.call("flush", self._client.flush, timeout_s)
        self._guard.check()
        if left:
            raise RetryableKafkaError(
                f"{left} records are not acknowledged by Kafka at {self._bootstrap} after {timeout_s:g} s"
            )

    def send_offsets(self, offsets: Mapping[TopicPartition, tuple[int, str]], group: str, timeout_s: float) -> None:
        """Add group offsets with metadata to the transaction.

        The client ignores ``timeout_s``: it looks for the group's coordinator three times within
        milliseconds, and then waits for a broker to change its state, which after a broker's crash may never come.
        Hence a deadline from outside; an instance that passes it is lost.

        Raises:
            ProducerLostError: no definite yes before the deadline.
        """
        self._guard.check()
        if not offsets:
            return
        entries = [
            ClientPartition(at.topic, at.partition, offset, metadata=text) for at, (offset, text) in offsets.items()
        ]
        member = self._group(group)
        client = self._client

        def send(left: float) -> None:
            within(left, lambda: client.send_offsets_to_transaction(entries, member, left))

        try:
            self._repeat("send_offsets", timeout_s, send)
        except TimeoutError as error:
            raise self._guard.lose(
                f"send_offsets: no definite answer from Kafka at {self._bootstrap} within {timeout_s:g} s"
            ) from error

    def commit(self, timeout_s: float) -> None:
        """Commit; returns only with a definite yes, and after all delivery callbacks of the transaction.

        Raises:
            RecordTooLargeError: the broker refused a record for its size. The instance is lost, and a new one must
                leave that record out.
            ProducerLostError: refused, or no answer before the deadline: the outcome is not known.
        """
        self._guard.check()
        self._repeat("commit", timeout_s, self._client.commit_transaction)
        self._open = False

    def abort(self, timeout_s: float) -> None:
        """Abort; returns only with a definite answer.

        Raises:
            ProducerLostError: refused, or no answer before the deadline.
        """
        self._guard.check(after_failure=True)
        self._repeat("abort", timeout_s, self._client.abort_transaction, after_failure=True)
        self._open = False

    def close(self) -> None:
        """Free the client; queued records are dropped and an open transaction is aborted, if the broker answers."""
        if self._closed:
            return
        self._closed = True
        abort = self._open and self._guard.lost is None
        self._guard.lost = self._guard.lost or "closed"
        handover = [self._client]
        del self._client, self._batches
        thread = threading.Thread(target=_close, args=(handover, abort), name="kafka-producer-close", daemon=True)
        thread.start()
        thread.join(CLOSE_WAIT_S)

    def _repeat(
        self,
        what: str,
        timeout_s: float,
        call: Callable[[float], object],
        *,
        repeatable: bool = False,
        after_failure: bool = False,
    ) -> None:
        deadline = time.monotonic() + timeout_s
        while True:
            left = max(deadline - time.monotonic(), 0.001)
            try:
                self._guard.call(what, call, left)
            except RetryableKafkaError as error:
                if time.monotonic() + RETRY_PAUSE_S < deadline:
                    time.sleep(RETRY_PAUSE_S)
                    continue
                text = f"{what}: no definite answer from Kafka at {self._bootstrap} within {timeout_s:g} s ({error})"
                if repeatable:
                    raise RetryableKafkaError(text) from error
                raise self._guard.lose(text) from error
            if after_failure:
                self._guard.forget_failure()
            self._guard.check()
            return

    def _make_room(self, deadline: float) -> None:
        """Wait until half of the queue is free: a caller that came back for every free place would only wait."""
        full = len(self._client)
        while len(self._client) > full // 2:
            if time.monotonic() >= deadline:
                raise RetryableKafkaError(
                    f"the queue of {full} records found no room for {QUEUE_FULL_DEADLINE_S:g} s: "
                    f"Kafka at {self._bootstrap} does not acknowledge records"
                )
            self._guard.call("poll", self._client.poll, QUEUE_POLL_S)
            self._guard.check()

    def _group(self, group: str) -> Any:
        """The group's identity as the client wants it: taken from a consumer that never joins."""
        if group not in self._groups:
            consumer = Consumer({**self._group_settings, "group.id": group})
            self._groups[group] = consumer.consumer_group_metadata()
            consumer.close()
        return self._groups[group]

    def _reporter(self, on_delivery: DeliveryCallback) -> Callable[[KafkaError | None, ClientMessage], None]:
        def report(error: KafkaError | None, message: ClientMessage) -> None:
            offset = message.offset()
            if error is None and offset is not None:
                on_delivery(offset)
            else:
                self._on_report(error, message)

        return report

    def _on_report(self, error: KafkaError | None, message: ClientMessage) -> None:
        if error is not None:
            self._guard.fail(error, str(message.topic()))

    def _on_error(self, error: KafkaError) -> None:
        log.debug("producer of %s: %s: %s", self._bootstrap, error.name(), error.str())


def _described(key: bytes | None, value: bytes | None) -> str:
    return f"record of {len(key or b'') + len(value or b'')} bytes with key {key!r:.80}"


def _close(handover: list[Client], abort: bool) -> None:
    """Abort if there is something to abort, and drop the last reference, which frees the client."""
    client = handover.pop()
    try:
        client.purge()
        if abort:
            client.close()
    except KafkaException as error:
        log.debug("closing a producer: %s", error)
