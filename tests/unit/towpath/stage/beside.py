"""A replica beside a working cluster, whose parts a test drives by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from statemgr.control.records import Assigned, Layer, Manner, Released, Tenure
from statemgr.migration.ports import Pending
from statemgr.store import StoreMeta
from statemgr.types import TaskId
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster, Node, rows_of
from towpath.coordinator.messages import Prepare
from towpath.stage.background import at_once
from towpath.stage.opener import Opener
from towpath.stage.ownership import Topics
from towpath.stage.preparations import Preparations


class Held:
    """A :class:`towpath.stage.background.Spawn` that works at once, or, once it holds, when it is told to."""

    def __init__(self) -> None:
        self.holds = False
        self.waiting: list[_Held] = []

    def __call__(self, work: Callable[[], Any]) -> Pending[Any]:
        if not self.holds:
            return at_once(work)
        held = _Held(work)
        self.waiting.append(held)
        return held

    def run(self) -> None:
        """Do all that waits, in order."""
        waiting, self.waiting = self.waiting, []
        for each in waiting:
            each.outcome = at_once(each.work)


class _Held:
    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work
        self.outcome: Pending[Any] | None = None

    def done(self) -> bool:
        return self.outcome is not None

    def result(self) -> Any:
        assert self.outcome is not None
        return self.outcome.result()


class Beside:
    """Replica ``a`` owns all tasks; ``b`` takes no turns, its parts are the test's."""

    def __init__(self, manner: Manner | None = None) -> None:
        self.spawn = Held()
        self.cluster = Cluster(manner or Manner(), spawn=self.spawn)
        self.cluster.add("a")
        self.cluster.settle()
        self.cluster.write(rows_of(range(40)))
        self.cluster.rest()
        self.node: Node = self.cluster.add("b")
        self.node.asleep = True
        self.opener.begin(self.topics)

    @property
    def topics(self) -> Topics:
        names = [name for name in self.cluster.kafka.cluster.topics if not name.startswith("__")]
        return Topics(self.cluster.plan, self.cluster.kafka.admin().describe(names, 1.0))

    @property
    def opener(self) -> Opener:
        return self.node.coordinated._arrivals._opener

    @property
    def preparations(self) -> Preparations:
        return self.node.coordinated._arrivals._preparations

    def assigned(self, partition: int = 0, manner: Manner | None = None, *, epoch: int = 2) -> Assigned:
        layers = (Layer("a", 1),)
        return Assigned(STAGE, partition, epoch, "b", (Tenure("a", 1),), layers, manner or Manner(), 1)

    def released(self, partition: int = 0) -> Released:
        meta = self.meta(partition)
        return Released(STAGE, partition, 1, "a", True, meta.offset, meta.progress)

    def meta(self, partition: int = 0) -> StoreMeta:
        state = self.cluster.task(partition).state
        assert state is not None
        meta = state.store.meta()
        assert meta is not None
        return meta

    def hint(self, partition: int = 0, manner: Manner | None = None, *, epoch: int = 2) -> Prepare:
        return Prepare(partition=partition, epoch=epoch, layers=[Layer("a", 1)], manner=manner or Manner())

    def wait(self, seconds: float = 0.01) -> None:
        """Let time pass, for the replica too."""
        self.cluster.clock.advance(seconds)
        self.opener.turn()
        self.preparations.turn(0.002)

    def stores(self) -> list[tuple[int, int]]:
        """Partition and epoch of every store on the replica's disk."""
        return [(at, epoch) for at in range(TASKS) for epoch in self.node.backend.existing(TaskId(STAGE, at))]

    def open_stores(self) -> list[tuple[int, int]]:
        """Those that are open."""
        stores = self.node.backend.inner._open
        return sorted((task.partition, epoch) for (task, epoch), store in stores.items() if not store.closed)
