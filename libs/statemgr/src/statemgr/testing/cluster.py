"""The broker side of the fake: topics, transaction coordinator, group offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from statemgr.errors import ProducerLostError, TopicMissingError
from statemgr.kafka.ports import Committed, TopicInfo, TopicSpec
from statemgr.kafka.settings import TRANSACTION_TIMEOUT_MS
from statemgr.testing.clock import MovableClock
from statemgr.testing.faults import Faults
from statemgr.testing.partition_log import Outcome, PartitionLog, Transaction
from statemgr.types import TopicPartition

TOPIC_DEFAULTS: Mapping[str, str] = {
    "cleanup.policy": "delete",
    "compression.type": "producer",
    "delete.retention.ms": "86400000",
    "max.message.bytes": "1048588",
    "message.timestamp.type": "CreateTime",
    "min.insync.replicas": "1",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.ms": "604800000",
}
"""Effective settings of a topic for which nothing else was asked: those of Kafka 4."""


@dataclass
class Topic:
    """A topic and its logs."""

    info: TopicInfo
    logs: list[PartitionLog]

    @property
    def max_record_bytes(self) -> int:
        """The broker's limit."""
        return int(self.info.config["max.message.bytes"])

    @property
    def compacted(self) -> bool:
        """Whether records need keys."""
        return "compact" in self.info.config["cleanup.policy"]

    @property
    def append_time(self) -> bool:
        """Whether the broker's clock stamps the records."""
        return self.info.config["message.timestamp.type"] == "LogAppendTime"


@dataclass
class Identity:
    """What the coordinator knows of a transactional id."""

    epoch: int = -1
    transaction: Transaction | None = None


@dataclass
class Cluster:
    """The state of the fake broker.

    Attributes:
        clock: injected; stamps records and drives the transaction time-out.
        marker_lag_s: time between the answer to a commit or abort and its markers (R6).
        transaction_timeout_s: open transactions older than this are aborted and their producer is fenced.
    """

    clock: MovableClock
    marker_lag_s: float = 0.0
    transaction_timeout_s: float = TRANSACTION_TIMEOUT_MS / 1000
    faults: Faults = field(default_factory=Faults)
    topics: dict[str, Topic] = field(default_factory=dict)
    group_offsets: dict[tuple[str, TopicPartition], Committed] = field(default_factory=dict)
    _identities: dict[str, Identity] = field(default_factory=dict)
    _decided: list[Transaction] = field(default_factory=list)
    _topic_ids: int = 0

    def create(self, spec: TopicSpec) -> None:
        """Make a topic with a new id; an older one of this name is gone with its records."""
        self._topic_ids += 1
        info = TopicInfo(
            name=spec.name,
            partitions=spec.partitions,
            topic_id=f"fake-{self._topic_ids:08d}",
            config={**TOPIC_DEFAULTS, **spec.config},
        )
        self.topics[spec.name] = Topic(info, [PartitionLog() for _ in range(spec.partitions)])

    def log(self, partition: TopicPartition) -> PartitionLog:
        """The log of a partition.

        Raises:
            TopicMissingError: there is no such partition.
        """
        topic = self.topics.get(partition.topic)
        if topic is None or not 0 <= partition.partition < len(topic.logs):
            raise TopicMissingError(f"{partition} does not exist; create the topic first")
        return topic.logs[partition.partition]

    def pass_time(self) -> None:
        """Do what is due by now: abort transactions that timed out, write markers."""
        now = self.clock.monotonic_s()
        for identity in self._identities.values():
            open_ = identity.transaction
            if open_ is not None and now - open_.started_s >= self.transaction_timeout_s:
                self._decide(identity, Outcome.ABORTED)
                identity.epoch += 1
        for transaction in [each for each in self._decided if each.due_s <= now]:
            self._complete(transaction)

    def init(self, transactional_id: str) -> int:
        """Fence the former producers of this id, end their transaction, return the new epoch."""
        self.pass_time()
        identity = self._identities.setdefault(transactional_id, Identity())
        if identity.transaction is not None:
            self._decide(identity, Outcome.ABORTED)
        self._complete_all(transactional_id)
        identity.epoch += 1
        return identity.epoch

    def check_epoch(self, transactional_id: str, epoch: int) -> Identity:
        """The identity, if this producer is its current one.

        Raises:
            ProducerLostError: fenced by a newer producer or by a time-out; they look alike.
        """
        self.pass_time()
        identity = self._identities[transactional_id]
        if identity.epoch != epoch:
            raise ProducerLostError(f"{transactional_id} was fenced: epoch {epoch} is not {identity.epoch}")
        return identity

    def write(self, transactional_id: str, epoch: int, partition: TopicPartition | None) -> Transaction:
        """The open transaction of a producer, begun by this write if need be."""
        identity = self.check_epoch(transactional_id, epoch)
        if identity.transaction is None:
            # The next transaction of an id waits until the markers of the former are written.
            self._complete_all(transactional_id)
            identity.transaction = Transaction(transactional_id, self.clock.monotonic_s())
        if partition is not None and partition not in identity.transaction.partitions:
            identity.transaction.partitions.append(partition)
        return identity.transaction

    def end(self, transactional_id: str, epoch: int, outcome: Outcome) -> None:
        """Decide about the open transaction; its markers follow after ``marker_lag_s``."""
        identity = self.check_epoch(transactional_id, epoch)
        if identity.transaction is not None:
            self._decide(identity, outcome)
        self.pass_time()

    def unstable(self, group: str) -> bool:
        """Whether offsets of this group wait for the end of a transaction."""
        self.pass_time()
        return any(group in transaction.offsets for transaction in self._unfinished())

    def complete_all(self) -> None:
        """Write every marker that is still to come."""
        for transaction in list(self._decided):
            self._complete(transaction)

    def _unfinished(self) -> Iterator[Transaction]:
        yield from self._decided
        for identity in self._identities.values():
            if identity.transaction is not None:
                yield identity.transaction

    def _decide(self, identity: Identity, outcome: Outcome) -> None:
        transaction = identity.transaction
        if transaction is not None:
            transaction.outcome = outcome
            transaction.due_s = self.clock.monotonic_s() + self.marker_lag_s
            self._decided.append(transaction)
            identity.transaction = None

    def _complete_all(self, transactional_id: str) -> None:
        for transaction in [each for each in self._decided if each.owner == transactional_id]:
            self._complete(transaction)

    def _complete(self, transaction: Transaction) -> None:
        self._decided.remove(transaction)
        for partition in transaction.partitions:
            topic = self.topics.get(partition.topic)
            if topic is not None and partition.partition < len(topic.logs):
                topic.logs[partition.partition].mark(transaction, self.clock.wall_ms())
        if transaction.outcome is Outcome.COMMITTED:
            for group, offsets in transaction.offsets.items():
                for at, committed in offsets.items():
                    self.group_offsets[group, at] = committed
