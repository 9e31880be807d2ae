"""Keys go where Java's default partitioner puts them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemgr.layout import BIN_COUNT, bin_of, changelog_key
from statemgr.partitioner import (
    VECTOR_MAX_BYTES,
    key_text_to_bytes,
    murmur2,
    partition_of,
    partitions_of,
    partitions_of_buffers,
)

JAVA = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}

keys = st.lists(st.binary(max_size=40) | st.integers().map(lambda number: str(number).encode()), max_size=60)


@pytest.mark.parametrize(("text", "hash_"), JAVA.items())
def test_murmur2_is_that_of_the_java_client(text, hash_):
    assert murmur2(text.encode()) == hash_


@given(keys, st.integers(1, 5000))
def test_vectorised_and_scalar_agree(some, count):
    assert partitions_of(some, count).tolist() == [partition_of(key, count) for key in some]


def test_keys_beyond_the_vector_limit_agree_too():
    some = [b"x" * size for size in (0, VECTOR_MAX_BYTES, VECTOR_MAX_BYTES + 1, VECTOR_MAX_BYTES + 2, 5)]
    assert partitions_of(some, 97).tolist() == [partition_of(key, 97) for key in some]


def test_no_keys_give_no_partitions():
    assert partitions_of([], 3).shape == (0,)
    assert partitions_of([], 3).dtype == np.int32


def test_buffers_may_begin_anywhere_like_a_sliced_arrow_array():
    offsets = np.array([3, 6, 6, 10], dtype=np.int32)
    data = b"xxxabcdefgyyy"
    expected = [partition_of(key, 8) for key in (b"abc", b"", b"defg")]
    assert partitions_of_buffers(offsets, data, 8).tolist() == expected


@pytest.mark.parametrize("count", [0, -1])
def test_a_topic_without_partitions_is_refused(count):
    with pytest.raises(ValueError, match="at least one partition"):
        partition_of(b"k", count)
    with pytest.raises(ValueError, match="at least one partition"):
        partitions_of([b"k"], count)


def test_text_keys_are_utf_8():
    assert key_text_to_bytes("grüße") == b"gr\xc3\xbc\xc3\x9fe"


def test_keys_of_one_partition_use_every_bin():
    """With one hash for both, a task would see a fraction of the bins (R9)."""
    decimal = [str(number).encode() for number in range(90_000)]
    mine = [key for key, where in zip(decimal, partitions_of(decimal, 8), strict=True) if where == 3][:10_000]
    assert len(mine) == 10_000
    sizes = np.bincount([bin_of(changelog_key(1, key)) for key in mine], minlength=BIN_COUNT)
    assert sizes.min() > 0
    assert sizes.max() < 3 * 10_000 / BIN_COUNT
