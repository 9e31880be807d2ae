"""Transaction markers that come to each partition at a time of its own (R6).

In a real cluster the partitions of a transaction have several leaders, and a reader of one may see the commit before a
reader of another does: for example the release in the control log before the changelog that it speaks of.
"""

from __future__ import annotations

from statemgr.testing.cluster import Cluster
from statemgr.testing.partition_log import Outcome, Transaction
from statemgr.types import TopicPartition
from tests.simulation.world import World


class StaggeredMarkers:
    """Lets a cluster write the markers of a transaction one after the other.

    Args:
        world: time and chance.
        cluster: the simulated Kafka.
        longest_s: longest time between a transaction's first and last marker.
    """

    def __init__(self, world: World, cluster: Cluster, longest_s: float) -> None:
        self._world = world
        self._cluster = cluster
        self._longest_s = longest_s
        self._missing: dict[Transaction, list[TopicPartition]] = {}
        self._complete_all = cluster._complete_all
        cluster._complete = self._begin  # type: ignore[method-assign]
        cluster._complete_all = self._finish_all  # type: ignore[method-assign]

    def settle(self) -> None:
        """Write all that are missing."""
        for transaction in list(self._missing):
            self._finish(transaction)

    def _begin(self, transaction: Transaction) -> None:
        self._cluster._decided.remove(transaction)
        self._missing[transaction] = list(transaction.partitions)
        for partition in transaction.partitions:
            delay_s = self._world.rng.random() * self._longest_s if self._longest_s else 0.0
            if delay_s:
                self._world.after(delay_s, lambda partition=partition: self._mark(transaction, partition))
            else:
                self._mark(transaction, partition)
        if transaction.outcome is Outcome.COMMITTED:
            for group, offsets in transaction.offsets.items():
                for at, committed in offsets.items():
                    self._cluster.group_offsets[group, at] = committed

    def _finish_all(self, transactional_id: str) -> None:
        """A producer's next transaction, and a fence, wait until all markers of the former are there."""
        self._complete_all(transactional_id)
        for transaction in [each for each in self._missing if each.owner == transactional_id]:
            self._finish(transaction)

    def _finish(self, transaction: Transaction) -> None:
        for partition in list(self._missing.get(transaction, ())):
            self._mark(transaction, partition)

    def _mark(self, transaction: Transaction, partition: TopicPartition) -> None:
        missing = self._missing.get(transaction, [])
        if partition not in missing:
            return
        missing.remove(partition)
        if not missing:
            del self._missing[transaction]
        topic = self._cluster.topics.get(partition.topic)
        if topic is not None and partition.partition < len(topic.logs):
            topic.logs[partition.partition].mark(transaction, self._cluster.clock.wall_ms())
