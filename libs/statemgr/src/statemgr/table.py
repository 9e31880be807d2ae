"""A typed table of a task: a write-back cache over the task's store.

The cache has two generations of a dict. When the young one is full it becomes the old one, and the former old one is
dropped: eviction costs one assignment for a whole generation, and what was used lately survives, because a hit in
the old generation moves the entry to the young one. Dirty entries move along and are never dropped (R11). Absence is
cached like a value.

All batch work is done by C loops (``map``, ``filterfalse``, ``dict.update``); the cost per key is in ``README.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import filterfalse
from operator import itemgetter
from typing import Any, Generic, TypeVar
from zlib import crc32

from statemgr.codecs import ValueCodec
from statemgr.errors import CodecError, RecordTooLargeError
from statemgr.kafka.settings import MAX_RECORD_BYTES
from statemgr.layout import CHUNK_TABLES, MAX_TABLES, changelog_key, list_table
from statemgr.store.base import Entry, Store
from statemgr.uses import KeyUses

V = TypeVar("V")

_BINS = tuple(bytes((index,)) for index in range(256))
_TABLE_BYTES = 2


@dataclass(frozen=True)
class TableSpec(Generic[V]):
    """A table of a stage: its name in code, its id in keys (never reused for another meaning), its value codec.

    ``chunks``: where values are the heads of lists (:mod:`statemgr.lists`), the codec of their chunks.
    """

    name: str
    id: int
    codec: ValueCodec[V]
    chunks: ValueCodec[Any] | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.id < MAX_TABLES and list_table(self.id) is None:
            raise ValueError(f"table {self.name!r} has id {self.id}; ids run from 0 to {MAX_TABLES - 1}")

    @property
    def of_chunks(self) -> TableSpec[Any]:
        """The table of the chunks.

        Raises:
            TypeError: its values are no lists.
        """
        if self.chunks is None:
            raise TypeError(f"table {self.name!r} has no lists: make its spec with chunks=…")
        return TableSpec(f"{self.name}.chunks", self.id + CHUNK_TABLES, self.chunks)


class ValueTable(Generic[V]):
    """Key → value of one task, read and written in batches; keys are bytes.

    Values belong to the table once they are put: change a copy and put it, not the object that a get returned.
    Made by :class:`TaskState`.

    Attributes:
        asked: keys whose values were asked for so far, one that occurs twice in a batch counted twice.
        read: how many of them the store was asked for; the others were cached.
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
        self._uses = KeyUses(self._generation // 2)
        self.asked = 0
        self.read = 0

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
            MissingStateError: the state of a key is still elsewhere; see :meth:`TaskState.unresolved`.
        """
        self.note_use(keys)
        return self.peek_many(keys)

    def peek_many(self, keys: Sequence[bytes]) -> list[V | None]:
        """The same, of keys whose use is noted already."""
        young = self._young
        self.asked += len(keys)
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
        self._uses.note_one(key)
        return self.peek_many((key,))[0]

    def put(self, key: bytes, value: V | None) -> None:
        """Set a value; None deletes."""
        self._young[key] = value
        self._dirty[key] = value

    def delete(self, key: bytes) -> None:
        """Delete a key; deleting an absent one is fine."""
        self.put(key, None)

    def committed(self, key: bytes) -> bool:
        """Whether nothing of a key waits for its transaction: what the table says of it is so, whatever happens."""
        return key not in self._dirty and key not in self._sent

    def as_stored(self, key: bytes, value: V) -> V:
        """The value as a later owner will read it.

        For values of user code, whose type and size nobody has checked: what can't be written, or could not be read
        again, is found at the row that it comes from, and not at the commit or after the next restore.

        Raises:
            CodecError: the value is not of the table's type.
            RecordTooLargeError: key and value are more than a changelog record can hold (R21).
        """
        data = self.spec.codec.encode(value)
        size = len(self._prefix) + len(key) + len(data)
        if size > MAX_RECORD_BYTES:
            raise RecordTooLargeError(
                f"key and value in table {self.spec.name!r} have {size} bytes; a changelog record holds "
                f"{MAX_RECORD_BYTES}: spread the value over several keys"
            )
        return self.spec.codec.decode(data)

    @contextmanager
    def items(self) -> Iterator[Iterator[tuple[bytes, V]]]:
        """All entries that are here as of now, uncommitted changes included, in no particular order.

        Reads the whole store of the task; use it for dumps and tests, not per batch::

            with table.items() as entries:
                for key, value in entries: ...
        """
        changed = self.uncommitted()
        with self._store.scan() as pairs:
            yield self._merge(pairs, changed)

    @contextmanager
    def stored(self, bin_: int) -> Iterator[Iterator[tuple[bytes, V]]]:
        """Committed entries of one bin, as of now; for who reads all of them a part at a time."""
        skip = 1 + _TABLE_BYTES
        with self._store.scan(_BINS[bin_] + self._prefix) as pairs:
            yield ((key[skip:], self._decode(key[skip:], data)) for key, data in pairs)

    def uncommitted(self) -> dict[bytes, V | None]:
        """Entries changed since the last apply; None: deleted."""
        return {**self._sent, **self._dirty}

    def note_use(self, keys: Sequence[bytes]) -> None:
        """Remember a batch of keys as used: the list is kept, nothing is done per key."""
        self._uses.note(keys)

    def uses(self, limit: int) -> list[tuple[bytes, int]]:
        """Store keys of the entries used most, with in how many of the last batches; hottest first."""
        hottest = sorted(self._uses.counts().items(), key=itemgetter(1), reverse=True)[:limit]
        return list(zip(self.store_keys([key for key, _ in hottest]), map(itemgetter(1), hottest), strict=True))

    def store_keys(self, keys: Sequence[bytes]) -> list[bytes]:
        """What these keys are called in the task's store."""
        prefix, bins = self._prefix, _BINS
        return [bins[crc32(full) & 0xFF] + full for full in map(prefix.__add__, keys)]

    def has(self, store_key: bytes) -> bool:
        """Whether an entry of this table is called so in the task's store."""
        return store_key.startswith(self._prefix, 1)

    def name_of(self, store_key: bytes) -> bytes:
        """Inverse of :meth:`store_keys`, for one of its entries."""
        return store_key[1 + _TABLE_BYTES :]

    def uncached(self, keys: Sequence[bytes]) -> list[bytes]:
        """Which of these would be read from the store, each once, in their order."""
        missing = dict.fromkeys(filterfalse(self._young.__contains__, keys))
        return list(filterfalse(self._old.__contains__, missing))

    def read_from(self, store: Store) -> None:
        """Read from another store from now on, which has the same state; for :class:`TaskState`."""
        self._store = store

    def collect(self) -> list[Entry]:
        """Encoded changelog entries of everything dirty, which now waits for apply; for :class:`TaskState`."""
        self._sent.update(self._dirty)
        self._dirty = {}
        prefix, encode = self._prefix, self.spec.codec.encode
        return [(prefix + key, None if value is None else encode(value)) for key, value in self._sent.items()]

    def applied(self) -> None:
        """What :meth:`collect` returned is in the store now; for :class:`TaskState`."""
        self._sent = {}
        self._rotate_if_full()

    def discard(self) -> None:
        """Forget everything that is not in the store; for :class:`TaskState`."""
        self._young, self._old, self._dirty, self._sent = {}, {}, {}, {}

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
            self.read += len(keys)
            young.update(zip(keys, self._read(keys), strict=True))

    def _read(self, keys: list[bytes]) -> list[V | None]:
        decode = self.spec.codec.decode
        found = self._store.get_many(self.store_keys(keys))
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
