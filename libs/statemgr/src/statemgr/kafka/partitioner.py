"""Java's default partitioner: which partition a key belongs to.

Kafka's Java clients hash a key with 32-bit murmur2 (Austin Appleby's MurmurHash2, seed 0x9747b28c), clear the sign bit
and take the remainder. Every producer here does the same, so that records written by Spark, by Java and by this runtime
meet in the same partition.
"""

from __future__ import annotations

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """32-bit MurmurHash2 as unsigned integer."""
    length = len(data)
    h = _SEED ^ length
    whole = length & ~3
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        h = h * _M & _MASK ^ k
    if length != whole:
        h = (h ^ int.from_bytes(data[whole:], "little")) * _M & _MASK
    h = (h ^ h >> 13) * _M & _MASK
    return h ^ h >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """Partition of a key in a topic of ``partitions`` partitions."""
    return (murmur2(key) & _POSITIVE) % partitions
