"""Stores around other stores: forwarding as they are, and failing when they are told to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from statemgr.store import Entry, Store, StoreBackend, StoreMeta, StoreSize
from statemgr.types import TaskId


class ForwardingBackend:
    """A :class:`~statemgr.store.StoreBackend` around another one; override what is to differ."""

    def __init__(self, inner: StoreBackend) -> None:
        self._inner = inner

    def open(self, task: TaskId, epoch: int, *, filling: bool = False) -> Store:
        """See :meth:`statemgr.store.StoreBackend.open`."""
        return self._inner.open(task, epoch, filling=filling)

    def filled(self, stores: Sequence[tuple[TaskId, int]]) -> list[Store]:
        """See :meth:`statemgr.store.StoreBackend.filled`."""
        return self._inner.filled(stores)

    def existing(self, task: TaskId) -> list[int]:
        """See :meth:`statemgr.store.StoreBackend.existing`."""
        return self._inner.existing(task)

    def fork(self, task: TaskId, source: int, target: int) -> None:
        """See :meth:`statemgr.store.StoreBackend.fork`."""
        self._inner.fork(task, source, target)

    def destroy(self, task: TaskId, epoch: int) -> None:
        """See :meth:`statemgr.store.StoreBackend.destroy`."""
        self._inner.destroy(task, epoch)

    def describe(self, task: TaskId, epoch: int) -> str:
        """See :meth:`statemgr.store.StoreBackend.describe`."""
        return self._inner.describe(task, epoch)

    def close(self) -> None:
        """See :meth:`statemgr.store.StoreBackend.close`."""
        self._inner.close()


class ForwardingStore:
    """A :class:`~statemgr.store.Store` around another one; override what is to differ."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See :meth:`statemgr.store.Store.get_many`."""
        return self._inner.get_many(keys)

    def write(self, entries: Iterable[Entry], meta: StoreMeta) -> None:
        """See :meth:`statemgr.store.Store.write`."""
        self._inner.write(entries, meta)

    def put_raw(self, entries: Iterable[Entry]) -> None:
        """See :meth:`statemgr.store.Store.put_raw`."""
        self._inner.put_raw(entries)

    def meta(self) -> StoreMeta | None:
        """See :meth:`statemgr.store.Store.meta`."""
        return self._inner.meta()

    def scan(self, prefix: bytes = b"") -> AbstractContextManager[Iterator[tuple[bytes, bytes]]]:
        """See :meth:`statemgr.store.Store.scan`."""
        return self._inner.scan(prefix)

    def size(self) -> StoreSize:
        """See :meth:`statemgr.store.Store.size`."""
        return self._inner.size()

    def close(self) -> None:
        """See :meth:`statemgr.store.Store.close`."""
        self._inner.close()


class FaultyBackend(ForwardingBackend):
    """A backend whose next write can be made to fail."""

    def __init__(self, inner: StoreBackend) -> None:
        super().__init__(inner)
        self._planned: list[tuple[BaseException, bool]] = []

    def fail_next_write(self, error: BaseException, *, after: bool = False) -> None:
        """Let the next write of any store raise ``error``; ``after``: what was to be written is written."""
        self._planned.append((error, after))

    def open(self, task: TaskId, epoch: int, *, filling: bool = False) -> Store:
        """See :meth:`statemgr.store.StoreBackend.open`."""
        return _FaultyStore(super().open(task, epoch, filling=filling), self._planned)

    def filled(self, stores: Sequence[tuple[TaskId, int]]) -> list[Store]:
        """See :meth:`statemgr.store.StoreBackend.filled`."""
        return [_FaultyStore(store, self._planned) for store in super().filled(stores)]


class _FaultyStore(ForwardingStore):
    def __init__(self, inner: Store, planned: list[tuple[BaseException, bool]]) -> None:
        super().__init__(inner)
        self._planned = planned

    def write(self, entries: Iterable[Entry], meta: StoreMeta) -> None:
        if not self._planned:
            self._inner.write(entries, meta)
            return
        error, after = self._planned.pop(0)
        if after:
            self._inner.write(entries, meta)
        raise error
