"""How a state manager reads the stores of its replica, which the replica has open meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from statemgr.errors import NoSuchCopyError
from statemgr.layout import HOT_KEY, MIGRATION_KEY
from statemgr.store.base import OWN_KEY_BYTES, StoreMeta
from statemgr.store.memory import MemoryBackend
from statemgr.store.scans import Pairs, Scan, ScanGuard
from statemgr.store.secondary import Estimates
from statemgr.types import TaskId


class StoreReader(Protocol):
    """A copy as of the last :meth:`catch_up`; used by one thread at a time."""

    def meta(self) -> StoreMeta | None:
        """Up to where the copy is complete; None before its owner's first batch.

        Raises:
            CorruptStoreError, IncompatibleStoreError: it can't be read.
        """
        ...

    def migration(self) -> bytes | None:
        """The migration record's bytes; None: the copy is complete in itself."""
        ...

    def hot(self) -> bytes | None:
        """The hot set's bytes; None: there is none."""
        ...

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values in the order of the keys; None where a key is absent."""
        ...

    def scan(self, prefix: bytes = b"", start: bytes = b"") -> AbstractContextManager[Iterator[tuple[bytes, bytes]]]:
        """Entries whose key starts with ``prefix``, from ``start`` on, in key order; explicit tombstones included.

        Never the store's own records, whose keys have one byte.
        """
        ...

    def is_current(self) -> bool:
        """Whether it reads the store that is there now: an owner may have deleted it and made another.

        What another holds has another X, of another changelog perhaps, so that the old one must not answer for it.
        """
        ...

    def catch_up(self) -> None:
        """Take in what the owner has written since.

        Raises:
            NoSuchCopyError: the store was deleted.
        """
        ...

    def estimates(self) -> Estimates:
        """About how large the copy is."""
        ...

    def close(self) -> None:
        """Free memory and files; closing twice is allowed.

        Raises:
            OpenScanError: a scan is live.
        """
        ...


class ReaderBackend(Protocol):
    """The stores of one replica, for reading."""

    def copies(self) -> list[tuple[TaskId, int]]:
        """Every store there is, as (task, epoch)."""
        ...

    def existing(self, task: TaskId) -> list[int]:
        """Epochs of which the task has a store here, ascending."""
        ...

    def open(self, task: TaskId, epoch: int) -> StoreReader:
        """Open a copy for reading, whatever its owner does.

        Raises:
            NoSuchCopyError: there is none.
            CorruptStoreError, IncompatibleStoreError: it can't be read.
        """
        ...

    def destroy(self, task: TaskId, epoch: int) -> None:
        """Delete a store; its readers are closed. An absent one is fine.

        Raises:
            StoreLockedError: its owner has it open.
        """
        ...

    def close(self) -> None:
        """Remove what reading has left; the readers are closed."""
        ...


Lag = Callable[[TaskId, int], bool]
"""Says whether a catch-up of a copy finds nothing new this time."""


class MemoryReaders:
    """Reads the stores of a :class:`statemgr.store.MemoryBackend`, as the process beside its owner would.

    Args:
        backend: the replica's stores, which live as long as its disk would.
        lag: lets a catch-up miss what was written last.
    """

    def __init__(self, backend: MemoryBackend, lag: Lag = lambda _task, _epoch: False) -> None:
        self._backend = backend
        self._lag = lag

    def copies(self) -> list[tuple[TaskId, int]]:
        """See :meth:`ReaderBackend.copies`."""
        return self._backend.stores()

    def existing(self, task: TaskId) -> list[int]:
        """See :meth:`ReaderBackend.existing`."""
        return self._backend.existing(task)

    def open(self, task: TaskId, epoch: int) -> MemoryReader:
        """See :meth:`ReaderBackend.open`."""
        return MemoryReader(self._backend, task, epoch, self._lag)

    def destroy(self, task: TaskId, epoch: int) -> None:
        """See :meth:`ReaderBackend.destroy`."""
        self._backend.destroy(task, epoch)

    def close(self) -> None:
        """See :meth:`ReaderBackend.close`."""


class MemoryReader:
    """A copy in memory: what the store held at the last catch-up."""

    def __init__(self, backend: MemoryBackend, task: TaskId, epoch: int, lag: Lag) -> None:
        self._guard = ScanGuard(f"{task}@{epoch} (memory, for reading)")
        self._backend = backend
        self._task = task
        self._epoch = epoch
        self._lag = lag
        self._identity = backend.identity(task, epoch)
        self._entries, self._meta = self._now()

    def is_current(self) -> bool:
        """See :meth:`StoreReader.is_current`."""
        return self._backend.identity(self._task, self._epoch) is self._identity

    def meta(self) -> StoreMeta | None:
        """See :meth:`StoreReader.meta`."""
        self._guard.check_open()
        return self._meta

    def migration(self) -> bytes | None:
        """See :meth:`StoreReader.migration`."""
        return self.get_many([MIGRATION_KEY])[0]

    def hot(self) -> bytes | None:
        """See :meth:`StoreReader.hot`."""
        return self.get_many([HOT_KEY])[0]

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See :meth:`StoreReader.get_many`."""
        self._guard.check_open()
        return list(map(self._entries.get, keys))

    def scan(self, prefix: bytes = b"", start: bytes = b"") -> Scan:
        """See :meth:`StoreReader.scan`."""
        return Scan(self._guard, lambda: self._pairs(prefix, start))

    def _pairs(self, prefix: bytes, start: bytes) -> Pairs:
        chosen = (key for key in self._entries if key.startswith(prefix) and key >= start and len(key) != OWN_KEY_BYTES)
        return (pair for pair in [(key, self._entries[key]) for key in sorted(chosen)])

    def catch_up(self) -> None:
        """See :meth:`StoreReader.catch_up`."""
        self._guard.check_open()
        now = self._now()
        if not self._lag(self._task, self._epoch):
            self._entries, self._meta = now

    def estimates(self) -> Estimates:
        """See :meth:`StoreReader.estimates`."""
        return Estimates(len(self._entries), sum(len(key) + len(value) for key, value in self._entries.items()))

    def close(self) -> None:
        """See :meth:`StoreReader.close`."""
        self._guard.mark_closed()

    def _now(self) -> tuple[dict[bytes, bytes], StoreMeta | None]:
        found = self._backend.snapshot(self._task, self._epoch)
        if found is None:
            raise NoSuchCopyError(f"there is no store {self._task}@{self._epoch} in memory")
        return found
