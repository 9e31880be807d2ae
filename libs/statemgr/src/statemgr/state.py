"""The state of a task as operators see it: typed tables behind a write-back cache.

::

    operator ──get_many/put_many──▶ ValueTable ──changes()──▶ changelog transaction
                                        │                           │ committed
                                        └────────apply(meta)────────▶ store (one atomic batch)

The cache rule (R11): a changed entry is *dirty* until its transaction has committed; only then it goes to the store,
together with the meta record. An aborted transaction drops the caches wholly, because what they hold was computed
from rows that will be read again.

A table's cache has two generations of a dict. When the young one is full it becomes the old one, and the former old
one is dropped: eviction costs one assignment for a whole generation, and what was used lately survives, because a
hit in the old generation moves the entry to the young one. Dirty entries move along and are never dropped. Absence
is cached like a value.

Cost (100 k distinct keys a batch, best of several runs on a shared 2-core machine): see ``README.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import filterfalse
from typing import Any, Generic, TypeVar
from zlib import crc32

from statemgr.codecs import ValueCodec, bytes_codec, json_codec
from statemgr.errors import CodecError, StoreWriteError
from statemgr.layout import MAX_TABLES, changelog_key, store_key
from statemgr.store.base import Entry, Store, StoreMeta
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

V = TypeVar("V")

REPLICA_CACHE_ENTRIES = 524_288
"""Clean entries that all tasks of a replica may cache: at about 250 bytes (key object 50, value object 60, dict slot
100, slack) 128 MiB."""

MIN_CACHE_ENTRIES = 1_024
"""Least useful cache of a task: about one small batch."""

DEFAULT_CACHE_ENTRIES = REPLICA_CACHE_ENTRIES // 8
"""Cache of one task when nothing is said: that of a replica with 8 tasks, 16 MiB."""

_BINS = tuple(bytes((index,)) for index in range(256))
_TABLE_BYTES = 2


def cache_entries_for(tasks: int, total: int = REPLICA_CACHE_ENTRIES) -> int:
    """Cache entries for each of a replica's tasks, so that the sum does not grow with their number."""
    return max(MIN_CACHE_ENTRIES, total // max(1, tasks))


@dataclass(frozen=True)
class TableSpec(Generic[V]):
    """A table of a stage: its name in code, its id in keys (never reused for another meaning), its value codec."""

    name: str
    id: int
    codec: ValueCodec[V]

    def __post_init__(self) -> None:
        if not 0 <= self.id < MAX_TABLES:
            raise ValueError(f"table {self.name!r} has id {self.id}; ids run from 0 to {MAX_TABLES - 1}")


class ValueTable(Generic[V]):
    """Key → value of one task, read and written in batches; keys are bytes.

    Values belong to the table once they are put: change a copy and put it, not the object that a get returned.
    Made by :class:`TaskState`.
    """

    def __init__(self, spec: TableSpec[V], store: Store, cache_entries: int) -> None:
        self.spec = spec
        self._store = store
        self._prefix = changelog_key(spec.id, b"")
        self._generation = max(1, cache_entries // 2)
        self._young: dict[bytes, V | None] = {}
        self._old: dict[bytes, V | None] = {}
        self._dirty: dict[bytes, V | None] = {}
        self._sent: dict[bytes, V | None] = {}  # handed out by changes(), not applied yet

    @property
    def dirty_entries(self) -> int:
        """Entries changed since the last apply; one that was handed out and changed again counts twice."""
        return len(self._dirty) + len(self._sent)

    @property
    def cached_entries(self) -> int:
        """Entries in memory, clean and dirty: at most the cache limit plus two times the dirty ones."""
        return len(self._young) + len(self._old)

    def get_many(self, keys: Sequence[bytes]) -> list[V | None]:
        """Values in the order of the keys, None where absent; what is not cached comes by one batched read.

        Raises:
            CorruptStoreError: the store is damaged.
            CodecError: a stored value is not of the table's type.
        """
        young = self._young
        missing = list(filterfalse(young.__contains__, keys))
        if missing:
            self._load(missing)
            values = list(map(young.__getitem__, keys))
            self._rotate_if_full()
            return values
        return list(map(young.__getitem__, keys))

    def put_many(self, keys: Sequence[bytes], values: Sequence[V | None]) -> None:
        """Set values; None deletes. Of a key that occurs twice the last value holds.

        Raises:
            ValueError: keys and values differ in number.
        """
        if len(keys) != len(values):
            raise ValueError(f"{len(keys)} keys but {len(values)} values for table {self.spec.name!r}")
        changes = dict(zip(keys, values, strict=True))
        self._young.update(changes)
        self._dirty.update(changes)

    def get(self, key: bytes) -> V | None:
        """The value, or None where absent."""
        return self.get_many((key,))[0]

    def put(self, key: bytes, value: V | None) -> None:
        """Set a value; None deletes."""
        self._young[key] = value
        self._dirty[key] = value

    def delete(self, key: bytes) -> None:
        """Delete a key; deleting an absent one is fine."""
        self.put(key, None)

    @contextmanager
    def items(self) -> Iterator[Iterator[tuple[bytes, V]]]:
        """All entries as of now, uncommitted changes included, in no particular order.

        Reads the whole store of the task; use it for dumps and tests, not per batch::

            with table.items() as entries:
                for key, value in entries: ...
        """
        changed = {**self._sent, **self._dirty}
        with self._store.scan() as pairs:
            yield self._merge(pairs, changed)

    def _merge(self, pairs: Iterator[tuple[bytes, bytes]], changed: dict[bytes, V | None]) -> Iterator[tuple[bytes, V]]:
        prefix, skip = self._prefix, 1 + _TABLE_BYTES
        for stored, data in pairs:
            if stored.startswith(prefix, 1) and stored[skip:] not in changed:
                yield stored[skip:], self._decode(stored[skip:], data)
        for key, value in changed.items():
            if value is not None:
                yield key, value

    def _load(self, keys: list[bytes]) -> None:
        """Bring keys that the young generation lacks into it, from the old one or the store."""
        young, old = self._young, self._old
        if old:
            known = list(filter(old.__contains__, keys))
            young.update(zip(known, map(old.__getitem__, known), strict=True))
            keys = list(filterfalse(old.__contains__, keys))
        if keys:
            young.update(zip(keys, self._read(keys), strict=True))

    def _read(self, keys: list[bytes]) -> list[V | None]:
        prefix, bins, decode = self._prefix, _BINS, self.spec.codec.decode
        full = [prefix + key for key in keys]
        found = self._store.get_many([bins[crc32(key) & 0xFF] + key for key in full])
        try:
            return [None if data is None else decode(data) for data in found]
        except CodecError:
            for key, data in zip(keys, found, strict=True):
                if data is not None:
                    self._decode(key, data)
            raise

    def _decode(self, key: bytes, data: bytes) -> V:
        try:
            return self.spec.codec.decode(data)
        except CodecError as error:
            raise CodecError(
                f"table {self.spec.name!r} (id {self.spec.id}), key {key!r}: {error}; was the table's value type "
                "changed without a new table id?"
            ) from error

    def _rotate_if_full(self) -> None:
        """Start a new generation; amortised O(1), since each one takes a generation of clean entries to fill."""
        if len(self._young) - len(self._dirty) - len(self._sent) >= self._generation:
            self._old = self._young
            self._young = {key: self._old[key] for key in (*self._sent, *self._dirty)}

    def _collect(self) -> list[Entry]:
        """Encoded changelog entries of everything dirty, which now waits for apply."""
        self._sent.update(self._dirty)
        self._dirty = {}
        prefix, encode = self._prefix, self.spec.codec.encode
        return [(prefix + key, None if value is None else encode(value)) for key, value in self._sent.items()]

    def _applied(self) -> None:
        self._sent = {}
        self._rotate_if_full()

    def _discard(self) -> None:
        self._young, self._old, self._dirty, self._sent = {}, {}, {}, {}


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
    def dirty_entries(self) -> int:
        """Entries changed since the last apply, over all tables; the runtime commits before they become too many."""
        return sum(table.dirty_entries for table in self._tables.values())

    def changes(self) -> list[Entry]:
        """Changelog key and value (None: tombstone) of every entry changed since the last apply, one per key (R22).

        Until :meth:`apply` or :meth:`discard` these entries count as sent; a second call without either includes
        them again, together with what changed since.
        """
        self._pending = [entry for table in self._tables.values() for entry in table._collect()]  # noqa: SLF001
        return self._pending

    def apply(self, meta: StoreMeta) -> None:
        """Write what the last :meth:`changes` returned, and the meta record, as one batch to the store.

        To be called after the transaction's commit has succeeded, never before (R11). What was put since stays dirty.

        Raises:
            StoreWriteError: nothing was written; the task can't go on here, and the changelog has its state.
        """
        try:
            self._store.write([(store_key(key), value) for key, value in self._pending], meta)
        except StoreWriteError as error:
            raise StoreWriteError(f"task {self.task} stops: {error}") from error
        self._pending = []
        for table in self._tables.values():
            table._applied()  # noqa: SLF001

    def discard(self) -> None:
        """Forget everything that is not in the store: to be called after an abort (R11)."""
        self._pending = []
        for table in self._tables.values():
            table._discard()  # noqa: SLF001

    def close(self) -> None:
        """Drop the caches and close the store; uncommitted changes are gone."""
        self.discard()
        self._store.close()


def _check_distinct(tables: Sequence[TableSpec[Any]]) -> None:
    for what in ("name", "id"):
        values = [getattr(spec, what) for spec in tables]
        twice = sorted({value for value in values if values.count(value) > 1})
        if twice:
            raise ValueError(f"two tables have the same {what}: {', '.join(map(str, twice))}")
