"""The migration record of a store: what it was made of, and which of its bins need no other copy.

It lies under :data:`statemgr.layout.MIGRATION_KEY` in the store that it speaks of. Bins are marked in it behind their
data, in one batch with the removal of their tombstones: no mark before its data (R9). A store without one is complete.

A bitmap has 256 bits in 32 bytes: bin ``b`` is bit ``b % 8`` of byte ``b // 8``.
"""

from __future__ import annotations

import msgspec

from statemgr.codecs import UNREADABLE
from statemgr.control.records import Layer
from statemgr.errors import CodecError
from statemgr.layout import BIN_COUNT

BITMAP_BYTES = BIN_COUNT // 8

NO_BINS = bytes(BITMAP_BYTES)
"""No bin is complete."""

ALL_BINS = b"\xff" * BITMAP_BYTES
"""Every bin is complete."""


class MigrationRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How far a store is independent of the copies that it is made of.

    Attributes:
        layers: the copies for what is not complete, newest first.
        cut: changelog offset at which the store's owner took over.
        complete: bitmap of the complete bins, 64 hexadecimal digits.
        beneath: changelog offset up to which the newest of the copies was complete when the store was begun. A copy
            that has not come so far, because its owner died before its last batch or its state manager has an old
            view, would answer with values that the store relies on being replaced.
    """

    layers: tuple[Layer, ...]
    cut: int
    complete: str
    beneath: int = -1

    def __post_init__(self) -> None:
        if len(self.complete) != 2 * BITMAP_BYTES or not set(self.complete) <= _HEX_DIGITS:
            raise ValueError(f"complete={self.complete!r} must be {2 * BITMAP_BYTES} hexadecimal digits")

    @property
    def bitmap(self) -> bytes:
        """The complete bins."""
        return bytes.fromhex(self.complete)


def encode_migration(record: MigrationRecord) -> bytes:
    """The record's bytes: JSON."""
    return _ENCODER.encode(record)


def decode_migration(data: bytes) -> MigrationRecord:
    """Inverse of :func:`encode_migration`.

    Raises:
        CodecError: the bytes are not a migration record.
    """
    try:
        return _DECODER.decode(data)
    except UNREADABLE as error:
        raise CodecError(f"not a store's migration record: {error}") from error


def is_complete(bitmap: bytes) -> bool:
    """Whether every bin is."""
    return bitmap == ALL_BINS


def has_bin(bitmap: bytes, bin_: int) -> bool:
    """Whether a bin is complete."""
    return bool(bitmap[bin_ >> 3] & (1 << (bin_ & 7)))


def with_bins(bitmap: bytes, first: int, last: int) -> bytes:
    """The bitmap with bins ``first`` … ``last`` (both included) complete."""
    bits = int.from_bytes(bitmap, "little") | (((1 << (last - first + 1)) - 1) << first)
    return bits.to_bytes(BITMAP_BYTES, "little")


_HEX_DIGITS = frozenset("0123456789abcdef")
_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(MigrationRecord)
