"""A task's store while part of its state is still with former owners.

::

    bin complete            the local store has everything
    bin incomplete          value here       ─▶ it counts, whatever arrives
                            tombstone here   ─▶ deleted, whatever arrives
                            neither          ─▶ unresolved: to be fetched before it is read

    what arrives            goes in only where neither a value nor a tombstone is (R8, I4)
    a delete by the owner   leaves a tombstone, or else an older value would arrive behind it (R7)
    a bin is complete       its mark and the removal of its tombstones are one batch, behind its data (R9)

Local entries are only ever written by the owner's commits, by the changelog's tail, and by what arrives.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec

from statemgr.control.records import Layer
from statemgr.errors import MissingStateError
from statemgr.layout import BIN_COUNT, MIGRATION_KEY, TOMBSTONE_TABLE, tombstone_key
from statemgr.migration.local_keys import LocalKeys, batches
from statemgr.migration.record import (
    NO_BINS,
    MigrationRecord,
    decode_migration,
    encode_migration,
    has_bin,
    is_complete,
    with_bins,
)
from statemgr.store.base import OWN_KEY_BYTES, UNFINISHED_KEY, Entry, Store, StoreMeta, StoreSize

_TOMBSTONE = TOMBSTONE_TABLE.to_bytes(2, "big")


class LayeredStore:
    """Implements :class:`~statemgr.store.base.Store` over the task's own store while bins are incomplete.

    Args:
        local: the task's own store, which has the migration record (see :func:`begin` and :func:`reopen`).
        record: the migration record in it.

    Attributes:
        local: the store beneath.
        record: the migration record as it is in the store now.
        asked: keys that :meth:`unresolved` was asked about.
        missing: how many of them were unresolved.
    """

    def __init__(self, local: Store, record: MigrationRecord) -> None:
        self.local = local
        self.record = record
        self.asked = 0
        self.missing = 0
        self._open = _open_bins(record)
        self._arriving = LocalKeys(local)

    @property
    def complete(self) -> bool:
        """Whether no other copy is needed any more."""
        return not self._open

    @property
    def open_bins(self) -> frozenset[int]:
        """Bins that are incomplete; another object whenever they are others."""
        return self._open

    def has_bin(self, bin_: int) -> bool:
        """Whether a bin is complete."""
        return bin_ not in self._open

    def unresolved(self, store_keys: Sequence[bytes]) -> list[bytes]:
        """Which of these can't be read yet, in their order."""
        self.asked += len(store_keys)
        missing = self._unresolved(store_keys)
        self.missing += len(missing)
        return missing

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """See :meth:`statemgr.store.base.Store.get_many`.

        Raises:
            MissingStateError: a key is unresolved; nothing is read then.
        """
        values = self.local.get_many(keys)
        absent = [key for key, value in zip(keys, values, strict=True) if value is None]
        missing = self._untold(absent)
        if missing:
            raise MissingStateError(
                f"the state of {len(missing)} of {len(keys)} keys is still with a former owner, for example of store "
                f"key {missing[0]!r}; ask unresolved() first, and fetch what it names before reading it"
            )
        return values

    def write(self, entries: Iterable[Entry], meta: StoreMeta) -> None:
        """See :meth:`statemgr.store.base.Store.write`; a delete in an incomplete bin leaves a tombstone."""
        if self.complete:
            self.local.write(entries, meta)
            return
        batch = dict(entries)  # the last of several entries with one key wins, also over its tombstone
        self.local.write(self._with_tombstones(batch), meta)
        self._arriving.note(batch)

    def put_raw(self, entries: Iterable[Entry]) -> None:
        """See :meth:`statemgr.store.base.Store.put_raw`; a delete in an incomplete bin leaves a tombstone."""
        batch = dict(entries)
        self.local.put_raw(self._with_tombstones(batch))
        self._arriving.note(batch)

    def meta(self) -> StoreMeta | None:
        """See :meth:`statemgr.store.base.Store.meta`."""
        return self.local.meta()

    @contextmanager
    def scan(self, prefix: bytes = b"") -> Iterator[Iterator[tuple[bytes, bytes]]]:
        """Entries that are here already; see :meth:`statemgr.store.base.Store.scan`."""
        with self.local.scan(prefix) as pairs:
            yield (pair for pair in pairs if not pair[0].startswith(_TOMBSTONE, 1))

    def size(self) -> StoreSize:
        """See :meth:`statemgr.store.base.Store.size`: of what is here already, tombstones included."""
        return self.local.size()

    def close(self) -> None:
        """See :meth:`statemgr.store.base.Store.close`."""
        self.local.close()

    def install(self, pairs: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Take up fetched keys: values, and None for what is deleted or absent for certain.

        A key that is resolved already is left as it is, so that answers may come late, twice, and in any order.
        """
        fetched = dict(pairs)
        missing = self._unresolved(list(fetched))
        self._put_arrived([(key, fetched[key]) for key in missing])

    def install_bins(self, first: int, last: int, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Take up a part of bins ``first`` … ``last``; None: deleted in the copy that it comes from.

        Copies must come newest first. Calls for one range of bins should follow each other, because the first reads
        which keys of the range are here already.
        """
        if entries:
            known = self._arriving.of(first, last)
            wanted = self._open.intersection(range(first, last + 1))
            self._put_arrived([pair for pair in entries if pair[0][0] in wanted and pair[0] not in known])

    def complete_bins(self, first: int, last: int) -> None:
        """Note that everything of these bins is here; to be called after their data is (R9)."""
        bitmap = with_bins(self.record.bitmap, first, last)
        record = msgspec.structs.replace(self.record, complete=bitmap.hex())
        self._replace(record, self._tombstones(first, last))
        self._arriving.forget()

    def took_over(self, cut: int) -> None:
        """Note the changelog offset at which the owner took over."""
        self._replace(msgspec.structs.replace(self.record, cut=cut), [])

    def _replace(self, record: MigrationRecord, entries: list[Entry]) -> None:
        """A store without a record is complete, so the last mark removes it."""
        open_ = _open_bins(record)
        self.local.put_raw([*entries, (MIGRATION_KEY, encode_migration(record) if open_ else None)])
        self.record, self._open = record, open_

    def _tombstones(self, first: int, last: int) -> list[Entry]:
        found: list[Entry] = []
        for bin_ in range(first, last + 1):
            with self.local.scan(bytes((bin_,)) + _TOMBSTONE) as pairs:
                found += [(key, None) for key, _ in pairs]
        return found

    def _put_arrived(self, pairs: Sequence[tuple[bytes, bytes | None]]) -> None:
        arrived = [(key, value) if value is not None else (tombstone_key(key), b"") for key, value in pairs]
        for batch in batches(arrived):
            self.local.put_raw(batch)
        self._arriving.note(key for key, _ in pairs)

    def _with_tombstones(self, batch: dict[bytes, bytes | None]) -> Iterator[Entry]:
        for key, value in batch.items():
            yield key, value
            if key[0] in self._open and len(key) != OWN_KEY_BYTES:
                yield tombstone_key(key), b"" if value is None else None

    def _unresolved(self, keys: Sequence[bytes]) -> list[bytes]:
        open_ = [key for key in keys if key[0] in self._open] if self._open else []
        values = self.local.get_many(open_)
        return self._untold([key for key, value in zip(open_, values, strict=True) if value is None])

    def _untold(self, absent: Sequence[bytes]) -> list[bytes]:
        """Those of some absent keys that no tombstone and no complete bin says to be absent for certain."""
        open_ = [key for key in absent if key[0] in self._open and len(key) != OWN_KEY_BYTES] if self._open else []
        tombstones = self.local.get_many(list(map(tombstone_key, open_)))
        return [key for key, tombstone in zip(open_, tombstones, strict=True) if tombstone is None]


def _open_bins(record: MigrationRecord) -> frozenset[int]:
    bitmap = record.bitmap
    return frozenset(bin_ for bin_ in range(BIN_COUNT) if not has_bin(bitmap, bin_))


def begin(local: Store, layers: Sequence[Layer], meta: StoreMeta, *, in_use: bool = False) -> LayeredStore:
    """Make an empty store the newest layer over others, in one batch.

    Args:
        local: the new owner's store, empty; closed if the batch can't be written.
        layers: copies that it takes its state from, newest first.
        meta: says up to which changelog offset the layers are complete, and from where the tail is to be applied.
        in_use: the first of them is still written, so that what arrives may be newer than X until the tail is applied.

    Raises:
        StoreWriteError: the batch could not be written.
    """
    record = MigrationRecord(tuple(layers), meta.offset, NO_BINS.hex(), beneath=meta.offset)
    try:
        local.write([(MIGRATION_KEY, encode_migration(record)), (UNFINISHED_KEY, b"" if in_use else None)], meta)
    except BaseException:
        local.close()
        raise
    return LayeredStore(local, record)


def reopen(local: Store) -> Store:
    """The store as it is to be used: itself if it is complete, else as the newest layer over those in its record.

    Raises:
        CodecError: its migration record can't be understood.
    """
    record = record_of(local)
    return local if record is None else LayeredStore(local, record)


def record_of(local: Store) -> MigrationRecord | None:
    """The migration record of a store that is incomplete; None for one that is complete.

    Raises:
        CodecError: it can't be understood.
    """
    (data,) = local.get_many([MIGRATION_KEY])
    record = decode_migration(data) if data is not None else None
    return None if record is None or is_complete(record.bitmap) else record
