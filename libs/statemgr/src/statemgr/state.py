"""The state of a task as operators see it: typed tables behind a write-back cache.

::

    operator ──get_many/put_many──▶ ValueTable ──changes()──▶ changelog transaction
                                        │                           │ committed
                                        └────────apply(meta)────────▶ store (one atomic batch)

The cache rule (R11): a changed entry is *dirty* until its transaction has committed; only then it goes to the store,
together with the meta record. An aborted transaction drops the caches wholly, because what they hold was computed
from rows that will be read again.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any
from zlib import crc32

from statemgr.codecs import ValueCodec, bytes_codec, json_codec
from statemgr.errors import StoreWriteError
from statemgr.layout import BIN_PREFIXES
from statemgr.migration.layered import LayeredStore
from statemgr.store.base import Entry, Store, StoreMeta
from statemgr.table import TableSpec, ValueTable
from statemgr.types import TaskId

__all__ = [
    "DEFAULT_CACHE_ENTRIES",
    "MIN_CACHE_ENTRIES",
    "REPLICA_CACHE_ENTRIES",
    "TableSpec",
    "TaskState",
    "ValueCodec",
    "ValueTable",
    "bytes_codec",
    "cache_entries_for",
    "json_codec",
]

REPLICA_CACHE_ENTRIES = 524_288
"""Clean entries that all tasks of a replica may cache: at about 250 bytes (key object 50, value object 60, dict slot
100, slack) 128 MiB."""

MIN_CACHE_ENTRIES = 1_024
"""Least useful cache of a task: about one small batch."""

DEFAULT_CACHE_ENTRIES = REPLICA_CACHE_ENTRIES // 8
"""Cache of one task when nothing is said: that of a replica with 8 tasks, 16 MiB."""


def cache_entries_for(tasks: int, total: int = REPLICA_CACHE_ENTRIES) -> int:
    """Cache entries for each of a replica's tasks, so that the sum does not grow with their number."""
    return max(MIN_CACHE_ENTRIES, total // max(1, tasks))


_NO_BINS: frozenset[int] = frozenset()


class TaskState:
    """All state of one task that the replica owns.

    Args:
        task: whose state it is.
        epoch: the owner's epoch.
        store: the task's store, restored; closed by :meth:`close`.
        tables: the stage's tables.
        cache_entries: clean entries kept in memory, over all tables of the task; see :func:`cache_entries_for`.

    Raises:
        ValueError: two tables share a name or an id.
    """

    def __init__(
        self,
        task: TaskId,
        epoch: int,
        store: Store,
        tables: Sequence[TableSpec[Any]],
        cache_entries: int = DEFAULT_CACHE_ENTRIES,
    ) -> None:
        _check_distinct(tables)
        self.task = task
        self.epoch = epoch
        self._store = store
        share = cache_entries // max(1, len(tables))
        self._tables = {spec.name: ValueTable(spec, store, share) for spec in tables}
        self._pending: list[Entry] = []

    @property
    def store(self) -> Store:
        """The store beneath, which holds committed state only."""
        return self._store

    def table(self, name: str) -> ValueTable[Any]:
        """The table of that name.

        Raises:
            LookupError: there is none; the message lists those there are.
        """
        try:
            return self._tables[name]
        except KeyError:
            names = ", ".join(sorted(self._tables)) or "none"
            raise LookupError(f"task {self.task} has no table {name!r}; its tables: {names}") from None

    @property
    def complete(self) -> bool:
        """Whether no entry is with a former owner any more."""
        return not isinstance(self._store, LayeredStore) or self._store.complete

    @property
    def open_bins(self) -> frozenset[int]:
        """Bins of which entries may still be with a former owner; another object whenever they are others."""
        return self._store.open_bins if isinstance(self._store, LayeredStore) else _NO_BINS

    @property
    def dirty_entries(self) -> int:
        """Entries changed since the last apply, over all tables; the runtime commits before they become too many."""
        return sum(table.dirty_entries for table in self._tables.values())

    def changes(self) -> list[Entry]:
        """Changelog key and value (None: tombstone) of every entry changed since the last apply, one per key (R22).

        Until :meth:`apply` or :meth:`discard` these entries count as sent; a second call without either includes
        them again, together with what changed since.
        """
        self._pending = [entry for table in self._tables.values() for entry in table.collect()]
        return self._pending

    def unresolved(self, table: str, keys: Sequence[bytes]) -> list[bytes]:
        """Keys of a table whose state is still with a former owner, each once: to be fetched before they are read.

        Costs nothing where all state is here. What the cache holds needs no fetch: a new value does not ask for the
        old one.

        Raises:
            LookupError: there is no such table.
        """
        store = self._store
        if not isinstance(store, LayeredStore) or self.complete:
            return []
        owner = self.table(table)
        wanted = owner.uncached(keys)
        names = dict(zip(owner.store_keys(wanted), wanted, strict=True))
        return [names[missing] for missing in store.unresolved(list(names))]

    def finish_migration(self) -> bool:
        """Work on the task's own store alone, once it has everything; whether it has."""
        store = self._store
        if isinstance(store, LayeredStore):
            if not store.complete:
                return False
            self._store = store.local
            for table in self._tables.values():
                table.read_from(store.local)
        return True

    def hot_keys(self, limit: int) -> list[bytes]:
        """Store keys of the entries used most in the last batches, hottest first; a few ms, whatever these were."""
        uses = [use for table in self._tables.values() for use in table.uses(limit)]
        return [key for key, _ in sorted(uses, key=itemgetter(1), reverse=True)[:limit]]

    def apply(self, meta: StoreMeta, extra: Sequence[Entry] = ()) -> None:
        """Write what the last :meth:`changes` returned, and the meta record, as one batch to the store.

        To be called after the transaction's commit has succeeded, never before (R11). What was put since stays dirty.

        Args:
            meta: up to where the store is complete with this batch.
            extra: further entries for the store alone, under store keys.

        Raises:
            StoreWriteError: the task can't go on here; the changelog has its state.
        """
        try:
            self._store.write([*_stored(self._pending), *extra], meta)
        except StoreWriteError as error:
            raise StoreWriteError(f"task {self.task} stops: {error}") from error
        self._pending = []
        for table in self._tables.values():
            table.applied()

    def discard(self) -> None:
        """Forget everything that is not in the store: to be called after an abort (R11)."""
        self._pending = []
        for table in self._tables.values():
            table.discard()

    def close(self) -> None:
        """Drop the caches and close the store; uncommitted changes are gone."""
        self.discard()
        self._store.close()


def _stored(entries: Sequence[Entry]) -> list[Entry]:
    """Changelog entries under their store keys: :func:`statemgr.layout.store_key` without a call for each."""
    bins = BIN_PREFIXES
    return [(bins[crc32(key) & 0xFF] + key, value) for key, value in entries]


def _check_distinct(tables: Sequence[TableSpec[Any]]) -> None:
    for what in ("name", "id"):
        values = [getattr(spec, what) for spec in tables]
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise ValueError(f"two tables have the same {what}: {', '.join(map(str, twice))}")
