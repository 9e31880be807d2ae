"""A compact filter of a copy's keys: a newcomer need not ask for keys that it certainly does not have.

A Bloom filter (B. H. Bloom, 1970) with two base hashes (Kirsch and Mitzenmacher, 2006): bit ``(a + i·b) mod m`` for
``i`` below ``hashes``, where ``a`` is murmur2 and ``b`` is CRC32.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from statemgr.partitioner import murmur2_of_buffers

BITS_PER_KEY = 10
"""About 1 % of absent keys are asked for needlessly, with 6 hashes."""

MAX_BYTES = 2 * 1024 * 1024
"""Half the message limit: 1.6 M keys at full sharpness; with 4 M keys one absent key in seven is asked for."""

MIN_BYTES = 8
MAX_HASHES = 6
"""Best at 10 bits a key: 10 · ln 2 = 6.9; the seventh would gain a tenth of a percent."""


@dataclass(frozen=True)
class KeyFilter:
    """Says of store keys whether a copy may have a value of them.

    It speaks of values alone: a key that it does not know is absent for certain only in a bin that is complete.

    Attributes:
        epoch: epoch of the copy.
        offset: its X when the filter was begun.
        keys: how many keys are in it.
        hashes: bits looked at for each key.
        bits: the filter.
    """

    epoch: int
    offset: int
    keys: int
    hashes: int
    bits: bytes

    def may_have(self, keys: Sequence[bytes]) -> NDArray[np.bool_]:
        """For each store key whether the copy may have a value; False: it certainly has none."""
        bits = np.frombuffer(self.bits, dtype=np.uint8)
        result = np.ones(len(keys), dtype=np.bool_)
        for places in _places(hash_keys(keys), self.hashes, len(bits) * 8):
            result &= (bits[places >> np.uint64(3)] >> (places & np.uint64(7)).astype(np.uint8)) & 1 == 1
        return result


class FilterBuilder:
    """Collects hashes of keys until their number, and so the filter's size, is known: 16 bytes a key."""

    def __init__(self) -> None:
        self._parts: list[NDArray[np.uint64]] = []

    def add(self, keys: Sequence[bytes]) -> None:
        """Take more store keys."""
        if keys:
            self._parts.append(hash_keys(keys))

    def build(self, epoch: int, offset: int, max_bytes: int = MAX_BYTES) -> KeyFilter:
        """The filter of all keys taken."""
        hashes = np.concatenate(self._parts, axis=1) if self._parts else np.zeros((2, 0), dtype=np.uint64)
        count = hashes.shape[1]
        size = min(max_bytes, max(MIN_BYTES, count * BITS_PER_KEY // 8 + 1))
        number = max(1, min(MAX_HASHES, int(size * 8 / max(1, count) * np.log(2))))
        flags = np.zeros(size * 8, dtype=np.bool_)
        for places in _places(hashes, number, size * 8):
            flags[places] = True
        return KeyFilter(epoch, offset, count, number, np.packbits(flags, bitorder="little").tobytes())


def hash_keys(keys: Sequence[bytes]) -> NDArray[np.uint64]:
    """Both base hashes of each key: 2 rows."""
    offsets = np.zeros(len(keys) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, keys), dtype=np.int64, count=len(keys)), out=offsets[1:])
    first = murmur2_of_buffers(offsets, b"".join(keys)).astype(np.uint64)
    second = np.fromiter(map(zlib.crc32, keys), dtype=np.uint64, count=len(keys))
    return np.stack((first, second | np.uint64(1)))


def _places(hashes: NDArray[np.uint64], number: int, size: int) -> list[NDArray[np.uint64]]:
    return [(hashes[0] + np.uint64(index) * hashes[1]) % np.uint64(size) for index in range(number)]
