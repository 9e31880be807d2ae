"""Disks: what a machine's stores keep when its processes die."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from statemgr.errors import CorruptStoreError, StoreWriteError
from statemgr.sidecar.readers import MemoryReader, MemoryReaders
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
        full: nothing can be written, and no store opened for writing; what is there can be read and deleted.
        unreadable: no store can be opened for reading either, because that takes a file, too.
    """

    stores: MemoryBackend = field(default_factory=MemoryBackend)
    slow_s: float = 0.0
    full: bool = False
    unreadable: bool = False

    def require_room(self, what: str) -> None:
        """Refuse a write if there is no room for it.

        Raises:
            StoreWriteError: there is none.
        """
        if self.full:
            raise StoreWriteError(f"{what}: no space left on device")

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


class DiskReaders(MemoryReaders):
    """How a state manager reads the stores of a disk."""

    def __init__(self, disk: Disk, lag: Callable[[TaskId, int], bool]) -> None:
        super().__init__(disk.stores, lag)
        self._disk = disk

    def open(self, task: TaskId, epoch: int) -> MemoryReader:
        """See the protocol."""
        if self._disk.unreadable:
            raise CorruptStoreError(f"{task}@{epoch} can't be read: no space left on device", task, epoch)
        return super().open(task, epoch)


class DiskBackend(ForwardingBackend):
    """A :class:`~statemgr.store.StoreBackend` on a disk: writes take as long as it says, and fail when it is full."""

    _inner: MemoryBackend

    def __init__(self, world: World, disk: Disk) -> None:
        super().__init__(disk.reopened())
        self._world = world
        self._disk = disk

    def open(self, task: TaskId, epoch: int, *, filling: bool = False) -> Store:
        """See the protocol."""
        self._disk.require_room(f"opening {task}@{epoch}")
        return _DiskStore(self._world, self._disk, super().open(task, epoch, filling=filling))

    def filled(self, stores: Sequence[tuple[TaskId, int]]) -> list[Store]:
        """See the protocol."""
        self._disk.require_room(f"flushing {len(stores)} stores")
        return [_DiskStore(self._world, self._disk, store) for store in super().filled(stores)]

    def fork(self, task: TaskId, source: int, target: int) -> None:
        """See the protocol."""
        self._disk.require_room(f"making {task}@{target}")
        super().fork(task, source, target)

    def open_stores(self) -> set[tuple[TaskId, int]]:
        """Stores that are open."""
        return {at for at, store in self._inner._open.items() if not store.closed}


class _DiskStore(ForwardingStore):
    """Lets time pass before a write, so that others act between a commit and what follows it.

    Once a write has failed all later ones do, as with RocksDB, until the store is opened again.
    """

    def __init__(self, world: World, disk: Disk, inner: Store) -> None:
        super().__init__(inner)
        self._world = world
        self._disk = disk
        self._failed = False

    def write(self, entries: Iterable[Entry], meta: StoreMeta) -> None:
        self._begin_write()
        super().write(entries, meta)

    def put_raw(self, entries: Iterable[Entry]) -> None:
        self._begin_write()
        super().put_raw(entries)

    def _begin_write(self) -> None:
        self._world.step("disk", "write")
        if self._disk.slow_s:
            self._world.sleep(self._world.rng.random() * self._disk.slow_s)
        self._failed |= self._disk.full
        if self._failed:
            raise StoreWriteError("appending to the log: no space left on device")
