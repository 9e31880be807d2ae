"""Disks: what a machine's stores keep when its processes die."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from statemgr.store import Entry, MemoryBackend, Store, StoreMeta
from statemgr.types import TaskId
from tests.simulation.world import World


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


class SlowBackend:
    """A :class:`~statemgr.store.StoreBackend` on a disk: writes take as long as the disk says."""

    def __init__(self, world: World, disk: Disk) -> None:
        self._world = world
        self._disk = disk
        self._inner = disk.reopened()

    def open(self, task: TaskId, epoch: int) -> Store:
        """See the protocol."""
        return _SlowStore(self._world, self._disk, self._inner.open(task, epoch))

    def existing(self, task: TaskId) -> list[int]:
        """See the protocol."""
        return self._inner.existing(task)

    def fork(self, task: TaskId, source: int, target: int) -> None:
        """See the protocol."""
        self._inner.fork(task, source, target)

    def destroy(self, task: TaskId, epoch: int) -> None:
        """See the protocol."""
        self._inner.destroy(task, epoch)

    def describe(self, task: TaskId, epoch: int) -> str:
        """See the protocol."""
        return self._inner.describe(task, epoch)

    def close(self) -> None:
        """See the protocol."""
        self._inner.close()

    def open_stores(self) -> set[tuple[TaskId, int]]:
        """Stores that are open."""
        return {at for at, store in self._inner._open.items() if not store.closed}


class _SlowStore:
    """Lets time pass before a write, so that others act between a commit and what follows it."""

    def __init__(self, world: World, disk: Disk, inner: Store) -> None:
        self._world = world
        self._disk = disk
        self._inner = inner

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return self._inner.get_many(keys)

    def write(self, entries: Iterable[Entry], meta: StoreMeta) -> None:
        self._take_time()
        self._inner.write(entries, meta)

    def put_raw(self, entries: Iterable[Entry]) -> None:
        self._take_time()
        self._inner.put_raw(entries)

    def meta(self) -> StoreMeta | None:
        return self._inner.meta()

    def scan(self, prefix: bytes = b"") -> AbstractContextManager[Iterator[tuple[bytes, bytes]]]:
        return self._inner.scan(prefix)

    def close(self) -> None:
        self._inner.close()

    def _take_time(self) -> None:
        self._world.step("disk", "write")
        if self._disk.slow_s:
            self._world.sleep(self._world.rng.random() * self._disk.slow_s)
