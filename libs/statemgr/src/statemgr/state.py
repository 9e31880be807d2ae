"""The state of a task as operators see it: typed tables behind a write-back cache.

::

    operator ──get_many/put_many──▶ ValueTable ──changes()──▶ changelog transaction
       └──append_many──▶ ListTable ─────┤                           │ committed
                                        └────────apply(meta)────────▶ store (one atomic batch)

The cache rule (R11): a changed entry is *dirty* until its transaction has committed; only then it goes to the store,
together with the meta record. An aborted transaction drops the caches wholly, because what they hold was computed
from rows that will be read again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from operator import itemgetter
from typing import Any
from zlib import crc32

from statemgr.codecs import ValueCodec, bytes_codec, json_codec
from statemgr.errors import StoreWriteError
from statemgr.layout import BIN_PREFIXES
from statemgr.lists import ListHead, ListTable, head_codec
from statemgr.migration.layered import LayeredStore
from statemgr.store.base import Entry, Store, StoreMeta
from statemgr.table import TableSpec, ValueTable
from statemgr.types import TaskId

__all__ = [
    "DEFAULT_CACHE_ENTRIES",
    "MIN_CACHE_ENTRIES",
    "REPLICA_CACHE_ENTRIES",
    "ListHead",
    "ListTable",
    "TableSpec",
    "TaskState",
    "ValueCodec",
    "ValueTable",
    "bytes_codec",
    "cache_entries_for",
    "head_codec",
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
        share = cache_entries // max(1, sum(1 if spec.chunks is None else 2 for spec in tables))
        self._lists = {spec.name: ListTable(spec, store, share) for spec in tables if spec.chunks is not None}
        self._tables = {
            spec.name: ValueTable(spec, store, share) if spec.chunks is None else self._lists[spec.name].heads
            for spec in tables
        }
        self._every = [*self._tables.values(), *(each.chunks for each in self._lists.values())]
        self._pending: list[Entry] = []

    @property
    def store(self) -> Store:
        """The store beneath, which holds committed state only."""
        return self._store

    def table(self, name: str) -> ValueTable[Any]:
        """The table of that name; where it has lists, that of their heads.

        Raises:
            LookupError: there is none; the message lists those there are.
        """
        try:
            return self._tables[name]
        except KeyError:
            names = ", ".join(sorted(self._tables)) or "none"
            raise LookupError(f"task {self.task} has no table {name!r}; its tables: {names}") from None

    def lists(self, name: str) -> ListTable[Any, Any]:
        """The table of that name, which has lists.

        Raises:
            LookupError: there is none, or it has none.
        """
        self.table(name)
        try:
            return self._lists[name]
        except KeyError:
            raise LookupError(f"table {name!r} of task {self.task} has no lists: make its spec with chunks=…") from None

    def delete_many(self, name: str, keys: Sequence[bytes]) -> None:
        """Delete entries of a table, each key once; lists with all of their rows.

        Raises:
            LookupError: there is no such table.
        """
        if name in self._lists:
            self._lists[name].delete_many(keys)
        else:
            self.table(name).put_many(keys, [None] * len(keys))

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
        return sum(table.dirty_entries for table in self._every)

    @property
    def cached_entries(self) -> int:
        """Entries in memory, clean and dirty, over all tables."""
        return sum(table.cached_entries for table in self._every)

    def reads(self) -> dict[str, tuple[int, int]]:
        """Of each table: keys whose values were asked for so far, and how many of them the store was asked for.

        Of lists those of their chunks, too.
        """
        found = {name: (table.asked, table.read) for name, table in self._tables.items()}
        for name, lists in self._lists.items():
            asked, read = found[name]
            found[name] = asked + lists.chunks.asked, read + lists.chunks.read
        return found

    def changes(self) -> list[Entry]:
        """Changelog key and value (None: tombstone) of every entry changed since the last apply, one per key (R22).

        Until :meth:`apply` or :meth:`discard` these entries count as sent; a second call without either includes
        them again, together with what changed since.
        """
        self._pending = [entry for table in self._every for entry in table.collect()]
        return self._pending

    def unresolved(self, table: str, keys: Sequence[bytes]) -> list[bytes]:
        """Keys of a table whose state is still with a former owner, each once: to be fetched before they are read.

        Costs nothing where all state is here. What the cache holds needs no fetch: a new value does not ask for the
        old one. A list is not here before all of its chunks are; :meth:`rest_of` tells which are not.

        Raises:
            LookupError: there is no such table.
        """
        store = self._store
        if not isinstance(store, LayeredStore) or self.complete:
            return []
        owner = self.table(table)
        wanted = owner.uncached(keys)
        names = dict(zip(owner.store_keys(wanted), wanted, strict=True))
        missing = [names[missing] for missing in store.unresolved(list(names))]
        if table not in self._lists:
            return missing
        here = dict.fromkeys(keys)
        for key in missing:
            del here[key]
        return missing + list(_rest(self._lists[table], store, list(here)))

    def rest_of(self, store_keys: Collection[bytes]) -> dict[bytes, list[bytes]]:
        """Of lists that are here in part: store key of the list → those of its chunks that are with a former owner.

        Left out are lists that are whole, those of which not even the head is here, and whatever is no list.
        """
        store = self._store
        found: dict[bytes, list[bytes]] = {}
        if not self._lists or not isinstance(store, LayeredStore) or store.complete:
            return found
        for lists in self._lists.values():
            names = {key: lists.heads.name_of(key) for key in store_keys if lists.heads.has(key)}
            uncached = lists.heads.store_keys(lists.heads.uncached(list(names.values())))
            elsewhere = set(store.unresolved(uncached))
            here = [name for key, name in names.items() if key not in elsewhere]
            rest = _rest(lists, store, here)
            found |= {key: rest[name] for key, name in names.items() if name in rest}
        return found

    def finish_migration(self) -> bool:
        """Work on the task's own store alone, once it has everything; whether it has."""
        store = self._store
        if isinstance(store, LayeredStore):
            if not store.complete:
                return False
            self._store = store.local
            for table in self._every:
                table.read_from(store.local)
        return True

    def hot_keys(self, limit: int) -> list[bytes]:
        """Store keys of the entries used most in the last batches, hottest first; a few ms, whatever these were."""
        uses = [use for table in self._every for use in table.uses(limit)]
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
        for table in self._every:
            table.applied()

    def discard(self) -> None:
        """Forget everything that is not in the store: to be called after an abort (R11)."""
        self._pending = []
        for table in self._every:
            table.discard()

    def close(self) -> None:
        """Drop the caches and close the store; uncommitted changes are gone."""
        self.discard()
        self._store.close()


def _rest(lists: ListTable[Any, Any], store: LayeredStore, keys: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    """Lists of these whose heads are here, but not all chunks; with the store keys of those that are not."""
    found: dict[bytes, list[bytes]] = {}
    names = lists.heads.store_keys(keys)
    for key, name, head in zip(keys, names, lists.heads.peek_many(keys), strict=True):
        chunks = [] if store.has_bin(name[0]) else lists.chunks.uncached(lists.chunk_keys(key, head))
        missing = store.unresolved(lists.chunks.store_keys(chunks)) if chunks else []
        if missing:
            found[key] = missing
    return found


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
