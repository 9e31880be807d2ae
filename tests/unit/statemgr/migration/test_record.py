"""The migration record of a store."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemgr.control.records import Layer
from statemgr.errors import CodecError
from statemgr.migration.record import (
    ALL_BINS,
    NO_BINS,
    MigrationRecord,
    decode_migration,
    encode_migration,
    has_bin,
    is_complete,
    with_bins,
)


def test_a_record_survives_its_bytes():
    record = MigrationRecord((Layer("a", 3, "h:1"), Layer("b", 2)), 41, with_bins(NO_BINS, 8, 9).hex())
    assert decode_migration(encode_migration(record)) == record
    assert record.bitmap[1] == 3


@given(first=st.integers(0, 255), last=st.integers(0, 255), before=st.binary(min_size=32, max_size=32))
def test_bins_are_added_and_none_is_lost(first, last, before):
    first, last = min(first, last), max(first, last)
    after = with_bins(before, first, last)
    for number in range(256):
        assert has_bin(after, number) == (has_bin(before, number) or first <= number <= last)


def test_a_store_is_complete_with_its_last_bin():
    assert not is_complete(with_bins(NO_BINS, 0, 254))
    assert is_complete(with_bins(with_bins(NO_BINS, 0, 254), 255, 255))
    assert is_complete(ALL_BINS)


@pytest.mark.parametrize("data", [b"", b"{}", b'{"layers":[],"cut":1,"complete":"ff"}'])
def test_other_bytes_are_refused_by_name(data):
    with pytest.raises(CodecError, match="not a store's migration record"):
        decode_migration(data)
