"""The partitioner agrees with Java clients."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemgr.kafka.partitioner import murmur2, partition_of

JAVA = [
    (b"21", -973932308),
    (b"foobar", -790332482),
    (b"a-little-bit-long-string", -985981536),
    (b"a-little-bit-longer-string", -1486304829),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
    (b"abc", 479470107),
]


@pytest.mark.parametrize(("key", "expected"), JAVA)
def test_the_hash_equals_that_of_java(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected % 2**32


@given(st.binary(max_size=40), st.integers(1, 300))
def test_a_partition_is_in_range_and_always_the_same(key: bytes, partitions: int) -> None:
    chosen = partition_of(key, partitions)
    assert 0 <= chosen < partitions
    assert partition_of(bytes(key), partitions) == chosen


def test_a_negative_hash_counts_without_its_sign() -> None:
    assert partition_of(b"21", 10) == (-973932308 & 0x7FFFFFFF) % 10
