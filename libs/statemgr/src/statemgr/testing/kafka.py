"""An in-memory Kafka: transactions, fencing, compaction, and faults on demand.

It satisfies the contract suite that also runs on a real broker (``tests/contract/test_kafka_contract.py``), is
deterministic, uses no threads, and moves an injected clock instead of waiting.

What it does not simulate: replication and several brokers, the group protocol, quotas, authorization, retries and
time-outs of requests, batches and compression, the order in which records of *different* partitions arrive, the size
of the client's queue, tiered storage, and expiry of transactional ids and group offsets (see
:meth:`FakeKafka.set_committed` for the latter).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from statemgr.kafka.ports import Committed, TopicSpec
from statemgr.testing.admin import FakeAdmin
from statemgr.testing.clock import ManualClock, MovableClock
from statemgr.testing.cluster import Cluster
from statemgr.testing.consumer import FakeConsumer
from statemgr.testing.faults import ANY, ClientCrashedError, Fault
from statemgr.testing.partition_log import Entry
from statemgr.testing.producer import FakeProducer
from statemgr.types import TopicPartition


class FakeKafka:
    """Implements :class:`~statemgr.kafka.ports.Kafka`, and lets a test reach behind the broker's counter.

    Args:
        clock: drives time stamps and the transaction time-out; by default one of its own, see :attr:`clock`.
        marker_lag_s: time between a commit's answer and the moment at which readers see it (R6).

    Attributes:
        clock: the clock in use.
        cluster: the broker's state, for a test's eyes.
    """

    def __init__(self, clock: MovableClock | None = None, *, marker_lag_s: float = 0.0) -> None:
        self.clock: MovableClock = clock if clock is not None else ManualClock()
        self.cluster = Cluster(self.clock, marker_lag_s=marker_lag_s)

    def consumer(self, *, read_committed: bool = True, columns: bool = False, name: str) -> FakeConsumer:
        """A new manually assigned consumer."""
        return FakeConsumer(self.cluster, name, read_committed=read_committed, columns=columns)

    def producer(self, *, transactional_id: str | None, name: str) -> FakeProducer:
        """A new producer instance."""
        return FakeProducer(self.cluster, name, transactional_id)

    def admin(self) -> FakeAdmin:
        """Administration; meets faults under the client name ``admin``."""
        return FakeAdmin(self.cluster, "admin")

    def entries(self, topic: str, partition: int) -> Sequence[Entry]:
        """Everything in a partition's log, markers and aborted records included."""
        return self.cluster.log(TopicPartition(topic, partition)).entries

    def compact(self, topic: str, *, drop_tombstones: bool = False) -> None:
        """Run the log cleaner over a topic now."""
        for log in self.cluster.topics[topic].logs:
            log.compact(drop_tombstones=drop_tombstones)

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        """Move a partition's log start, as retention does."""
        self.cluster.log(TopicPartition(topic, partition)).delete_before(before)

    def truncate(self, topic: str, partition: int, records: int) -> None:
        """Lose the last offsets of a partition, as an unclean broker does."""
        self.cluster.log(TopicPartition(topic, partition)).truncate(records)

    def recreate(self, topic: str, partitions: int | None = None) -> None:
        """Delete a topic and make it anew, empty, with another topic id."""
        info = self.cluster.topics[topic].info
        self.cluster.create(TopicSpec(topic, partitions or info.partitions, info.config))

    def delete_topic(self, topic: str) -> None:
        """Delete a topic."""
        del self.cluster.topics[topic]

    def set_committed(self, group: str, partition: TopicPartition, offset: int | None, metadata: str = "") -> None:
        """Change a group's offset as somebody outside does, or let it expire (None)."""
        if offset is None:
            self.cluster.group_offsets.pop((group, partition), None)
        else:
            self.cluster.group_offsets[group, partition] = Committed(offset, metadata)

    def settle(self) -> None:
        """Write every transaction marker that ``marker_lag_s`` holds back."""
        self.cluster.complete_all()

    def fail_next(
        self, call: str, error: BaseException, *, client: str = ANY, skip: int = 0, after: bool = False
    ) -> None:
        """Let a coming call fail, once.

        Args:
            call: method name, for example ``commit``; ``*`` for any.
            error: what it raises; a :class:`ClientCrashedError` also kills the client.
            client: name of the client that meets it; ``*`` for any.
            skip: how many matching calls pass first.
            after: whether the call takes effect before it fails: "applied, but the answer was lost".
        """
        self.cluster.faults.plan(Fault(call, error, client, skip, after))

    def crash(self, client: str) -> None:
        """Kill every client of this name: later calls raise, an open transaction stays open until its time-out."""
        self.cluster.faults.kill(client)

    def restart(self, client: str) -> None:
        """Let new clients use the name of a crashed one; drop the old instances."""
        self.cluster.faults.revive(client)

    def on_call(self, hook: Callable[[str, str], None] | None) -> None:
        """Call ``hook(client, call)`` before every call, for schedulers that count or interleave steps."""
        self.cluster.faults.on_call = hook


__all__ = ["ANY", "ClientCrashedError", "FakeKafka", "FakeProducer", "ManualClock"]
