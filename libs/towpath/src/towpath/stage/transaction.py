"""The transaction of a replica: what is produced, and how it ends.

With exactly-once, outputs, changelog, progress records and offsets are one Kafka transaction. With at-least-once only
the rows of sinks leave it: changelog and progress stay transactional, or else a zombie's late append plus compaction
could lose a newer value for good, and so do inner edges, or else the state behind them would not be exact (R13).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from statemgr.clock import Clock
from statemgr.control.records import ControlRecord, control_key, encode_control
from statemgr.errors import ProducerLostError, RetryableKafkaError, StopRequestedError
from statemgr.kafka.ports import Kafka, Producer
from statemgr.layout import PROGRESS_KEY, control_topic
from statemgr.progress import Progress, encode_progress
from statemgr.types import TopicPartition
from towpath.errors import TowpathError
from towpath.stage.settings import Guarantee

INIT_TIMEOUT_S = 30.0
"""Fencing waits for the former owner's open transaction to be aborted: its time-out is 10 s (R18), three times that."""

INIT_STEP_S = 2.0
"""One attempt of it, so that a request to stop is seen: a replica is to be gone 10 s after SIGTERM."""

END_TIMEOUT_S = 8.0
"""All steps of a commit together; below the 10 s after which the broker aborts, so that the answer is definite."""

FINAL_END_TIMEOUT_S = 4.0
"""The last commit before leaving; a replica is to be gone 10 s after SIGTERM, whatever the broker does."""

_LEAST_TIMEOUT_S = 0.01

CONTROL_PARTITION = 0
"""The control log has one partition, so that its offsets order all facts."""


def _nothing() -> Sequence[ControlRecord]:
    return ()


@dataclass
class TaskChanges:
    """What one task adds to a transaction: changed entries, then the progress record as the last of its partition."""

    changelog: str
    partition: int
    entries: Sequence[tuple[bytes, bytes | None]]
    progress: Progress
    progress_offset: int | None = field(default=None, init=False)

    def delivered(self, offset: int) -> None:
        """Note where the progress record came to lie; recorded offsets come from delivery reports (R6)."""
        self.progress_offset = offset


class Transactor:
    """Owns the producers of a replica."""

    def __init__(
        self, kafka: Kafka, app: str, transactional_id: str, replica: str, guarantee: Guarantee, clock: Clock
    ) -> None:
        self._kafka = kafka
        self._control = control_topic(app)
        self._id = transactional_id
        self._replica = replica
        self._outside = guarantee is Guarantee.AT_LEAST_ONCE
        self._clock = clock
        self._producer: Producer | None = None
        self._outputs: Producer | None = None
        self._begun_s: float | None = None

    @property
    def open(self) -> bool:
        """Whether a transaction has begun."""
        return self._begun_s is not None

    @property
    def open_s(self) -> float:
        """Seconds since the transaction began; 0 while none is open."""
        return 0.0 if self._begun_s is None else self._clock.monotonic_s() - self._begun_s

    def fence(self, stopping: Callable[[], bool]) -> None:
        """New producer instances, and every other owner of the transactional id fenced (R3, R4).

        Raises:
            ProducerLostError: no definite answer.
            StopRequestedError: asked to stop meanwhile.
        """
        self.close()
        self._producer = self._kafka.producer(transactional_id=self._id, name=self._replica)
        self._init(self._producer, stopping)
        if self._outside:
            self._outputs = self._kafka.producer(transactional_id=None, name=f"{self._replica}-outputs")

    def warm(self, topics: Sequence[str], group: str) -> None:
        """Make the first records of these topics, and the first offsets of the group, as quick as later ones."""
        if self._producer is not None:
            self._producer.warm(topics, group)
        if self._outputs is not None:
            self._outputs.warm(topics)

    def outputs(self, *, inner: bool) -> Producer:
        """Producer for outputs; begins the transaction.

        Args:
            inner: rows of an inner edge; they stay inside the transaction whatever the guarantee, because the next
                stage would count a repeated row twice in its state (R13).
        """
        producer = self._begun()
        return producer if inner or self._outputs is None else self._outputs

    def begin(self) -> None:
        """Begin a transaction unless one is open."""
        self._begun()

    def dead_letters(self) -> Producer:
        """Producer for dead letters: always inside, so that none is written twice or lost."""
        return self._begun()

    def commit(
        self,
        changes: Sequence[TaskChanges],
        offsets: Mapping[TopicPartition, tuple[int, str]],
        group: str,
        timeout_s: float = END_TIMEOUT_S,
        facts: Callable[[], Sequence[ControlRecord]] = _nothing,
    ) -> None:
        """End the transaction before the deadline; afterwards every change knows where its progress record lies.

        Args:
            changes: what each task adds.
            offsets: input → next offset and metadata, shown by the group.
            group: the stage's group.
            timeout_s: for all steps together.
            facts: gives the records for the control log; called when every change knows where its progress record
                lies.

        Raises:
            ProducerLostError: fenced, or no definite answer; the caller drops everything (R4).
        """
        producer = self._begun()
        deadline_s = self._clock.monotonic_s() + timeout_s
        if self._outputs is not None:
            self._outputs.flush(self._left(deadline_s))
        for change in changes:
            if change.entries:
                keys, values = zip(*change.entries, strict=True)
                producer.produce_batch(change.changelog, change.partition, keys, values)
            producer.produce(
                change.changelog,
                change.partition,
                PROGRESS_KEY,
                encode_progress(change.progress),
                on_delivery=change.delivered,
            )
        if offsets:
            producer.send_offsets(offsets, group, self._left(deadline_s))
        producer.flush(self._left(deadline_s))
        for fact in facts():
            producer.produce(self._control, CONTROL_PARTITION, control_key(fact), encode_control(fact))
        producer.commit(self._left(deadline_s))
        self._begun_s = None

    def close(self) -> None:
        """Drop the producers; an open transaction is left to the fence or the broker's time-out."""
        self._begun_s = None
        for producer in (self._producer, self._outputs):
            if producer is not None:
                producer.close()
        self._producer = self._outputs = None

    def _init(self, producer: Producer, stopping: Callable[[], bool]) -> None:
        deadline_s = self._clock.monotonic_s() + INIT_TIMEOUT_S
        while True:
            try:
                producer.init_transactions(INIT_STEP_S)
            except RetryableKafkaError as error:
                if stopping():
                    raise StopRequestedError("asked to stop while fencing former owners") from error
                if self._clock.monotonic_s() >= deadline_s:
                    raise ProducerLostError(str(error)) from error
            else:
                return

    def _left(self, deadline_s: float) -> float:
        return max(_LEAST_TIMEOUT_S, deadline_s - self._clock.monotonic_s())

    def _begun(self) -> Producer:
        if self._producer is None:
            raise TowpathError("a transaction was begun before the fence")
        if self._begun_s is None:
            self._producer.begin()
            self._begun_s = self._clock.monotonic_s()
        return self._producer
