"""What a copy says: answers of bounded size from one reader, as it stands (R7, R21)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from statemgr.codecs import UNREADABLE
from statemgr.errors import CodecError
from statemgr.layout import TOMBSTONE_TABLE, tombstone_key
from statemgr.migration.ports import Chunk, Description, Found, LookedUp
from statemgr.migration.record import ALL_BINS, MigrationRecord, decode_migration, has_bin, is_complete
from statemgr.sidecar.readers import StoreReader
from statemgr.store.base import EMPTY_OFFSET

LOOK_UP_BYTES = 1024 * 1024
"""Most bytes of values in one look-up's answer, except for a single larger one: a fourth of the message limit, and
10 ms of a 1 Gbit/s line."""

CHUNK_BYTES = 256 * 1024
"""Most bytes of entries in one chunk, except for a single larger one: what a write batch of the newcomer takes (R9)."""

ENTRY_OVERHEAD_BYTES = 16
"""Counted for an entry beside key and value: what carries them, rounded up."""

_FIRST_KEYS = 8
"""Keys read before anything is known of the size of values: at 1 MB, the largest value, 8 MB for a moment."""

_KEYS_AT_ONCE = 128
"""Most keys read before the size of the answer is looked at again."""

_TOMBSTONE = TOMBSTONE_TABLE.to_bytes(2, "big")
_BIN_AND_TABLE = 3
_HOT_SET = msgspec.msgpack.Decoder(list[bytes])


def offset_of(reader: StoreReader) -> int:
    """X of the copy."""
    meta = reader.meta()
    return EMPTY_OFFSET if meta is None else meta.offset


def migration_of(reader: StoreReader) -> MigrationRecord | None:
    """The copy's migration record; None: it is complete in itself.

    Raises:
        CodecError: the record can't be understood.
    """
    data = reader.migration()
    return None if data is None else decode_migration(data)


def describe(reader: StoreReader) -> Description:
    """The copy as a whole."""
    record = migration_of(reader)
    keys, size = reader.estimates()
    if record is None:
        return Description(reader.meta(), ALL_BINS, (), keys, size)
    return Description(reader.meta(), record.bitmap, record.layers, keys, size, record.beneath)


def look_up(reader: StoreReader, epoch: int, keys: Sequence[bytes], limit: int = LOOK_UP_BYTES) -> LookedUp:
    """What the copy knows of each key; as many keys as fit, at least one."""
    bitmap = _bitmap(reader)
    found: list[bytes | Found] = []
    size = 0
    while (first := len(found)) < len(keys):
        for answer in _find(reader, bitmap, keys[first : first + _keys_at_once(first, size, limit)]):
            size += ENTRY_OVERHEAD_BYTES + (len(answer) if isinstance(answer, bytes) else 0)
            if size > limit and found:
                return LookedUp(epoch, offset_of(reader), tuple(found))
            found.append(answer)
    return LookedUp(epoch, offset_of(reader), tuple(found))


def hot(reader: StoreReader, epoch: int, cursor: bytes, limit: int = CHUNK_BYTES) -> Chunk:
    """The next part of the hot set; the cursor is a place in its list."""
    bitmap = _bitmap(reader)
    keys = _hot_keys(reader)
    entries: list[tuple[bytes, bytes | None]] = []
    size = 0
    place = start = _place(cursor)
    while place < len(keys):
        part = keys[place : place + _keys_at_once(place - start, size, limit)]
        for key, answer in zip(part, _find(reader, bitmap, part), strict=True):
            value = answer if isinstance(answer, bytes) else None
            size += _size(key, value)
            if size > limit and entries:
                return Chunk(epoch, offset_of(reader), tuple(entries), b"%d" % place, is_complete(bitmap))
            place += 1
            if answer is not Found.UNKNOWN:
                entries.append((key, value))
    return Chunk(epoch, offset_of(reader), tuple(entries), None, is_complete(bitmap))


def bins(reader: StoreReader, epoch: int, first: int, last: int, cursor: bytes, limit: int = CHUNK_BYTES) -> Chunk:
    """The next part of some bins, in the order in which they are stored; the cursor is a place in that order."""
    bitmap = _bitmap(reader)
    complete = all(has_bin(bitmap, number) for number in range(first, last + 1))
    entries: list[tuple[bytes, bytes | None]] = []
    size = 0
    following: bytes | None = None
    with reader.scan(start=max(cursor, bytes((first,)))) as pairs:
        for stored, data in pairs:
            if stored[0] > last:
                break
            key, value = entry_of(stored, data)
            size += _size(key, value)
            if size > limit and entries:
                following = stored
                break
            entries.append((key, value))
    return Chunk(epoch, offset_of(reader), tuple(entries), following, complete)


def keys(reader: StoreReader, start: bytes, limit: int) -> tuple[int, list[bytes], bytes | None]:
    """X, the next keys that have values, and where to go on."""
    found: list[bytes] = []
    with reader.scan(start=start) as pairs:
        for number, (stored, data) in enumerate(pairs):
            if number == limit:
                return offset_of(reader), found, stored
            if entry_of(stored, data)[1] is not None:
                found.append(stored)
    return offset_of(reader), found, None


def entry_of(stored: bytes, data: bytes) -> tuple[bytes, bytes | None]:
    """A stored pair as store key and value; an explicit tombstone as the key that it is about, and None."""
    if stored[1:_BIN_AND_TABLE] == _TOMBSTONE:
        return stored[:1] + stored[_BIN_AND_TABLE:], None
    return stored, data


def _keys_at_once(done: int, size: int, limit: int) -> int:
    """How many keys to read before the size of the answer is looked at again: as many as should fit, from those before.

    Args:
        done: keys read so far.
        size: bytes of their answers.
        limit: most bytes of the whole answer.
    """
    if done == 0:
        return _FIRST_KEYS
    return max(1, min(_KEYS_AT_ONCE, (limit - size) * done // size))


def _find(reader: StoreReader, bitmap: bytes, keys: Sequence[bytes]) -> list[bytes | Found]:
    values = reader.get_many(keys)
    doubtful = [
        key for key, value in zip(keys, values, strict=True) if value is None and key and not has_bin(bitmap, key[0])
    ]
    marks = reader.get_many([tombstone_key(key) for key in doubtful]) if doubtful else []
    special = {key: Found.UNKNOWN if mark is None else Found.DELETED for key, mark in zip(doubtful, marks, strict=True)}
    return [special.get(key, Found.ABSENT) if value is None else value for key, value in zip(keys, values, strict=True)]


def _bitmap(reader: StoreReader) -> bytes:
    record = migration_of(reader)
    return ALL_BINS if record is None else record.bitmap


def _hot_keys(reader: StoreReader) -> list[bytes]:
    data = reader.hot()
    if data is None:
        return []
    try:
        return _HOT_SET.decode(data)
    except UNREADABLE as error:
        raise CodecError(f"not a store's hot set: {error}") from error


def _place(cursor: bytes) -> int:
    return int(cursor) if cursor.isdigit() else 0


def _size(key: bytes, value: bytes | None) -> int:
    return len(key) + (len(value) if value is not None else 0) + ENTRY_OVERHEAD_BYTES
