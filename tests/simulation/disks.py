"""Disks: what a machine's stores keep when its processes die."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from statemgr.store import Entry, MemoryBackend, Store, StoreMeta
from statemgr.types import TaskId
from tests.simulation.world import World
from towpath.testing.stores import ForwardingBackend, ForwardingStore


@dataclass
class Disk:
    """A machine's disk.

    Attributes:
        stores: what is on it.
        slow_s: longest time of a write.
    """

    stores: MemoryBackend = field(default_factory=MemoryBackend)
    slow_s: float = 0.0

    def reopened(self) -> MemoryBackend:
        """The stores as a process finds them that has just started: no store is open."""
        self.stores._open.clear()
        return self.stores

    def copies(self) -> Iterator[tuple[TaskId, int]]:
        """All stores."""
        for task in sorted(self.stores._contents):
            for epoch in self.stores.existing(task):
                yield task, epoch

    def wipe(self) -> None:
        """Lose everything."""
        self.stores._contents.clear()

    def lose(self, task: TaskId, epoch: int) -> bool:
        """Lose one store, if nobody has it open."""
        store = self.stores._open.get((task, epoch))
        if store is not None and not store.closed:
            return False
        return self.stores._contents.get(task, {}).pop(epoch, None) is not None


class SlowBackend(ForwardingBackend):
    """A :class:`~statemgr.store.StoreBackend` on a disk: writes take as long as the disk says."""

    _inner: MemoryBackend

    def __init__(self, world: World, disk: Disk) -> None:
        super().__init__(disk.reopened())
        self._world = world
        self._disk = disk

    def open(self, task: TaskId, epoch: int, *, filling: bool = False) -> Store:
        """See the protocol."""
        return _SlowStore(self._world, self._disk, super().open(task, epoch, filling=filling))

    def filled(self, stores: Sequence[tuple[TaskId, int]]) -> list[Store]:
        """See the protocol."""
        return [_SlowStore(self._world, self._disk, store) for store in super().filled(stores)]

    def open_stores(self) -> set[tuple[TaskId, int]]:
        """Stores that are open."""
        return {at for at, store in self._inner._open.items() if not store.closed}


class _SlowStore(ForwardingStore):
    """Lets time pass before a write, so that others act between a commit and what follows it."""

    def __init__(self, world: World, disk: Disk, inner: Store) -> None:
        super().__init__(inner)
        self._world = world
        self._disk = disk

    def write(self, entries: Iterable[Entry], meta: StoreMeta) -> None:
        self._take_time()
        super().write(entries, meta)

    def put_raw(self, entries: Iterable[Entry]) -> None:
        self._take_time()
        super().put_raw(entries)

    def _take_time(self) -> None:
        self._world.step("disk", "write")
        if self._disk.slow_s:
            self._world.sleep(self._world.rng.random() * self._disk.slow_s)
