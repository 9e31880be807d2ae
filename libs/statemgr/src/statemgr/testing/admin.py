# ruff: noqa: ARG002 - time-outs belong to the interface; the fake never waits
"""Topic administration of the fake."""

from __future__ import annotations

from collections.abc import Sequence

from statemgr.errors import TopicMismatchError
from statemgr.kafka.ports import TopicInfo, TopicSpec
from statemgr.testing.cluster import Cluster

BROKERS = 1
"""The fake cluster has one broker, so more replicas than that are refused."""


class FakeAdmin:
    """Implements :class:`~statemgr.kafka.ports.Admin` on a :class:`~statemgr.testing.cluster.Cluster`."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self.name = name
        self._cluster = cluster

    def describe(self, names: Sequence[str], timeout_s: float) -> dict[str, TopicInfo]:
        """What exists among these names."""
        fault = self._cluster.faults.enter(self.name, "describe")
        found = {name: self._cluster.topics[name].info for name in names if name in self._cluster.topics}
        self._cluster.faults.leave(fault, self.name)
        return found

    def create(self, specs: Sequence[TopicSpec], replication: int, timeout_s: float) -> None:
        """Create topics; one that exists already is left as it is.

        Raises:
            TopicMismatchError: no partitions, or more replicas than brokers.
        """
        fault = self._cluster.faults.enter(self.name, "create")
        for spec in specs:
            if spec.name in self._cluster.topics:
                continue
            if spec.partitions < 1 or replication > BROKERS:
                raise TopicMismatchError(
                    f"topic {spec.name} can't be created as asked: {spec.partitions} partitions with {replication} "
                    "replicas on one broker; correct its partitions, replication or settings"
                )
            self._cluster.create(spec)
        self._cluster.faults.leave(fault, self.name)

    def close(self) -> None:
        """Nothing to free."""
