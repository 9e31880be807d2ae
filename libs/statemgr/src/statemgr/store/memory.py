"""Stores in memory: state that the changelog alone keeps beyond the process, and the fast double for tests."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from statemgr.errors import StoreLockedError
from statemgr.store.base import OWN_KEY_BYTES, Entry, Store, StoreMeta, StoreSize
from statemgr.store.scans import Pairs, Scan, ScanGuard
from statemgr.types import TaskId

SIZED_ENTRIES = 100
"""Entries by which the size of all is estimated."""


@dataclass
class _Content:
    """What survives close(): the counterpart of a directory."""

    entries: dict[bytes, bytes] = field(default_factory=dict)
    meta: StoreMeta | None = None
    scanned: bool = False  # since the last change
    order: list[bytes] | None = None  # keys of the entries, sorted; made for the second scan between two changes


class MemoryStore:
    """A store whose bytes are in a dict."""

    def __init__(self, name: str, content: _Content) -> None:
        self._guard = ScanGuard(name)
        self._content = content

    @property
    def closed(self) -> bool:
        """Whether close() was called."""
        return self._guard.closed

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See :meth:`statemgr.store.base.Store.get_many`."""
        self._guard.check_open()
        return list(map(self._content.entries.get, keys))

    def write(self, entries: Iterable[Entry], meta: StoreMeta) -> None:
        """See :meth:`statemgr.store.base.Store.write`."""
        self.put_raw(entries)
        self._content.meta = meta

    def put_raw(self, entries: Iterable[Entry]) -> None:
        """See :meth:`statemgr.store.base.Store.put_raw`."""
        self._guard.check_open()
        batch = dict(entries)  # whatever raises in the iterable does so before anything changes
        self._content.scanned, self._content.order = False, None
        target = self._content.entries
        for key, value in batch.items():
            if value is None:
                target.pop(key, None)
            else:
                target[key] = value

    def meta(self) -> StoreMeta | None:
        """See :meth:`statemgr.store.base.Store.meta`."""
        self._guard.check_open()
        return self._content.meta

    def scan(self, prefix: bytes = b"") -> Scan:
        """See :meth:`statemgr.store.base.Store.scan`."""
        return Scan(self._guard, lambda: self._pairs(prefix))

    def _pairs(self, prefix: bytes) -> Pairs:
        content = self._content
        if content.scanned and content.order is None:
            content.order = sorted(key for key in content.entries if len(key) != OWN_KEY_BYTES)
        content.scanned = True
        if content.order is None:
            chosen = sorted(key for key in content.entries if key.startswith(prefix) and len(key) != OWN_KEY_BYTES)
        else:
            begin = bisect_left(content.order, prefix, key=lambda key: key[: len(prefix)])
            end = bisect_right(content.order, prefix, key=lambda key: key[: len(prefix)])
            chosen = content.order[begin:end]
        return (pair for pair in [(key, content.entries[key]) for key in chosen])

    def size(self) -> StoreSize:
        """See :meth:`statemgr.store.base.Store.size`; bytes by the first entries."""
        self._guard.check_open()
        entries = self._content.entries
        some = [len(key) + len(value) for key, value in islice(entries.items(), SIZED_ENTRIES)]
        return StoreSize(len(entries), len(entries) * sum(some) // len(some) if some else 0)

    def close(self) -> None:
        """See :meth:`statemgr.store.base.Store.close`."""
        self._guard.mark_closed()


class MemoryBackend:
    """Keeps the stores of a replica in memory; a closed store can be opened again while the backend lives."""

    def __init__(self) -> None:
        self._contents: dict[TaskId, dict[int, _Content]] = {}
        self._open: dict[tuple[TaskId, int], MemoryStore] = {}

    def open(self, task: TaskId, epoch: int, *, filling: bool = False) -> MemoryStore:  # noqa: ARG002 – one way to write
        """See :meth:`statemgr.store.base.StoreBackend.open`."""
        self._check_closed(task, epoch)
        content = self._contents.setdefault(task, {}).setdefault(epoch, _Content())
        store = MemoryStore(f"{task}@{epoch} (memory)", content)
        self._open[task, epoch] = store
        return store

    def filled(self, stores: Sequence[tuple[TaskId, int]]) -> list[Store]:
        """See :meth:`statemgr.store.base.StoreBackend.filled`."""
        for at in stores:
            self._open[at].close()
        return [self.open(task, epoch) for task, epoch in stores]

    def existing(self, task: TaskId) -> list[int]:
        """See :meth:`statemgr.store.base.StoreBackend.existing`."""
        return sorted(self._contents.get(task, ()))

    def stores(self) -> list[tuple[TaskId, int]]:
        """Every store as (task, epoch), sorted."""
        return sorted((task, epoch) for task, epochs in self._contents.items() for epoch in epochs)

    def snapshot(self, task: TaskId, epoch: int) -> tuple[dict[bytes, bytes], StoreMeta | None] | None:
        """Entries, the store's own records included, and meta as they are now, whoever has it open; None: no store."""
        content = self._contents.get(task, {}).get(epoch)
        return None if content is None else (dict(content.entries), content.meta)

    def identity(self, task: TaskId, epoch: int) -> object:
        """Tells a store from another that was made later under the same name; None: there is none."""
        return self._contents.get(task, {}).get(epoch)

    def fork(self, task: TaskId, source: int, target: int) -> None:
        """See :meth:`statemgr.store.base.StoreBackend.fork`."""
        self._check_closed(task, source)
        self._check_closed(task, target)
        content = self._contents[task][source]
        self._contents[task][target] = _Content(dict(content.entries), content.meta)

    def destroy(self, task: TaskId, epoch: int) -> None:
        """See :meth:`statemgr.store.base.StoreBackend.destroy`."""
        self._check_closed(task, epoch)
        self._contents.get(task, {}).pop(epoch, None)

    def describe(self, task: TaskId, epoch: int) -> str:
        """See :meth:`statemgr.store.base.StoreBackend.describe`."""
        content = self._contents.get(task, {}).get(epoch, _Content())
        return f"memory of {task}@{epoch} ({len(content.entries)} entries)"

    def close(self) -> None:
        """See :meth:`statemgr.store.base.StoreBackend.close`."""
        for store in list(self._open.values()):
            store.close()
        self._open.clear()

    def _check_closed(self, task: TaskId, epoch: int) -> None:
        store = self._open.get((task, epoch))
        if store is not None and not store.closed:
            raise StoreLockedError(f"the store {task}@{epoch} is open in this process; close it first")
