"""Which partition a key belongs to: the Java client's default partitioner, bit for bit.

``toPositive(murmur2(key)) % partitions``, with 32-bit MurmurHash2 (Austin Appleby; seed and constants as in Kafka's
``org.apache.kafka.common.utils.Utils``). Spark's Kafka sink, the Java producer, and librdkafka with
``partitioner=murmur2_random`` put a key into the same partition; librdkafka's own default (CRC32) does not.

The vectorised form handles all keys of a batch at once, word by word, so that a loop runs per 4 bytes of the longest
key instead of per key. Measured on one core (100 k decimal keys of 10 bytes, best of several): see ``README.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SEED = 0x9747B28C
_M = 0x5BD1E995
_R = 24
_MASK = 0xFFFFFFFF

VECTOR_MAX_BYTES = 1024
"""Longer keys are hashed one at a time: a pass over all rows per 4 bytes would cost more than the scalar loop."""

_M32 = np.uint32(_M)
_R32 = np.uint32(_R)
_TAIL_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], dtype=np.uint32)


def key_text_to_bytes(text: str) -> bytes:
    """Record key of a text key: UTF-8, as Java's StringSerializer and Spark's cast to binary write it."""
    return text.encode("utf-8")


def murmur2(key: bytes) -> int:
    """Kafka's murmur2 of a key as a signed 32-bit integer, the form in which Java shows it."""
    h = _murmur2_unsigned(key)
    return h - (1 << 32) if h & 0x80000000 else h


def partition_of(key: bytes, count: int) -> int:
    """Partition of a key, 0 … ``count`` − 1.

    Raises:
        ValueError: ``count`` is not positive.
    """
    _check_count(count)
    return (_murmur2_unsigned(key) & 0x7FFFFFFF) % count


def partitions_of(keys: Sequence[bytes], count: int) -> NDArray[np.int32]:
    """Partitions of many keys, in their order.

    Raises:
        ValueError: ``count`` is not positive.
    """
    offsets = np.zeros(len(keys) + 1, dtype=np.int64)
    np.cumsum(np.fromiter(map(len, keys), dtype=np.int64, count=len(keys)), out=offsets[1:])
    return partitions_of_buffers(offsets, b"".join(keys), count)


def partitions_of_buffers(offsets: NDArray[Any], data: Any, count: int) -> NDArray[np.int32]:
    """Partitions of keys that lie one after another in a buffer, as in an Arrow string or binary array.

    Args:
        offsets: n + 1 ascending byte positions; key i is ``data[offsets[i]:offsets[i + 1]]``.
        data: any object with the buffer protocol.
        count: number of partitions.

    Returns:
        n partitions.

    Raises:
        ValueError: ``count`` is not positive.
    """
    _check_count(count)
    hashes = murmur2_of_buffers(offsets, data)
    positive = (hashes & np.uint32(0x7FFFFFFF)).view(np.int32)
    result: NDArray[np.int32] = positive % np.int32(count)
    return result


def murmur2_of_buffers(offsets: NDArray[Any], data: Any) -> NDArray[np.uint32]:
    """Unsigned murmur2 of each key; arguments as for :func:`partitions_of_buffers`."""
    bounds = np.asarray(offsets, dtype=np.int64)
    starts, lengths = bounds[:-1], np.diff(bounds)
    raw = np.frombuffer(data, dtype=np.uint8)
    long_rows = np.flatnonzero(lengths > VECTOR_MAX_BYTES)
    if not long_rows.size:
        return _vectorised(raw, starts, lengths)
    hashes = np.empty(len(lengths), dtype=np.uint32)
    rest = np.flatnonzero(lengths <= VECTOR_MAX_BYTES)
    hashes[rest] = _vectorised(raw, starts[rest], lengths[rest])
    for row in long_rows:
        hashes[row] = _murmur2_unsigned(raw[bounds[row] : bounds[row + 1]].tobytes())
    return hashes


def _vectorised(raw: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.uint32]:
    h = np.uint32(_SEED) ^ lengths.astype(np.uint32)
    if not len(lengths):
        return h
    words = _words_at_every_byte(raw)
    whole = lengths >> 2
    everywhere = int(whole.min())
    for index in range(everywhere):
        h = _mix(h, words[starts + 4 * index])
    for index in range(everywhere, int(whole.max())):
        rows = np.flatnonzero(whole > index)
        h[rows] = _mix(h[rows], words[starts[rows] + 4 * index])
    rest = lengths & 3
    rows = np.flatnonzero(rest)
    if rows.size:
        tail = words[starts[rows] + 4 * whole[rows]] & _TAIL_MASKS[rest[rows]]
        h[rows] = (h[rows] ^ tail) * _M32
    h ^= h >> np.uint32(13)
    h *= _M32
    h ^= h >> np.uint32(15)
    return h


def _words_at_every_byte(raw: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """View of the little-endian 4-byte word that starts at each byte; zeros follow the last byte."""
    padded = np.zeros(len(raw) + 8, dtype=np.uint8)
    padded[: len(raw)] = raw
    return np.ndarray(shape=(len(raw) + 4,), dtype="<u4", buffer=padded, strides=(1,))


def _mix(h: NDArray[np.uint32], k: NDArray[np.uint32]) -> NDArray[np.uint32]:
    k = k * _M32
    k ^= k >> _R32
    k *= _M32
    mixed: NDArray[np.uint32] = (h * _M32) ^ k
    return mixed


def _murmur2_unsigned(key: bytes) -> int:
    size = len(key)
    h = _SEED ^ (size & _MASK)
    whole = size & ~3
    for start in range(0, whole, 4):
        k = int.from_bytes(key[start : start + 4], "little") * _M & _MASK
        k = (k ^ (k >> _R)) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if size & 3:
        h = (h ^ int.from_bytes(key[whole:], "little")) * _M & _MASK
    h = (h ^ (h >> 13)) * _M & _MASK
    return h ^ (h >> 15)


def _check_count(count: int) -> None:
    if count < 1:
        raise ValueError(f"a topic has at least one partition, not {count}")
