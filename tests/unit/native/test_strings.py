"""Strings are the byte strings of a column, looked at where they lie."""

from __future__ import annotations

import gc

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towpath_native import WHY_NOT
from towpath_native.cells import Cells
from towpath_native.strings import Strings

pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=f"no columns: {WHY_NOT}")

ITEMS = st.lists(st.one_of(st.none(), st.binary(max_size=30)), max_size=12)
INLINE, LONG = b"x" * 12, b"y" * 13
"""The longest that lies in its view itself, and the shortest that does not."""


@settings(max_examples=50)
@given(ITEMS)
def test_strings_hold_what_they_are_made_of(items):
    strings = Strings.of(items)
    assert list(strings) == items
    assert [strings[place] for place in range(-len(items), 0)] == items
    assert strings.size.tolist() == [len(item or b"") for item in items]
    assert Strings.of(strings) is strings
    assert list(Strings.of(Cells.of(items))) == items


@settings(max_examples=50)
@given(ITEMS, st.slices(12))
def test_a_slice_is_one_of_the_items(items, places):
    assert list(Strings.of(items)[places]) == items[places]


def test_strings_at_places_are_the_items_there():
    strings = Strings.of([b"a", None, b""]).at(np.array([2, 0, 0, 1]))
    assert list(strings) == [b"", b"a", b"a", None]


def test_none_has_no_address_and_an_empty_string_has_one():
    strings = Strings.of([b"", None])
    assert (strings.address != 0).tolist() == [True, False]


@settings(max_examples=50)
@given(st.lists(ITEMS, max_size=4), st.slices(20))
def test_a_column_of_bytes_in_chunks_and_a_slice_of_it(chunks, places):
    column = pl.concat([pl.Series("", chunk, dtype=pl.Binary) for chunk in [[], *chunks]], rechunk=False)
    items = [item for chunk in chunks for item in chunk]
    assert list(Strings.of_column(column)) == items
    assert list(Strings.of_column(column[places])) == items[places]


@settings(max_examples=50)
@given(st.lists(st.one_of(st.none(), st.text(max_size=20)), max_size=12), st.integers(0, 12), st.integers(0, 12))
def test_a_column_of_text_from_some_row_on(items, start, length):
    column = pl.Series("", items, dtype=pl.String).slice(start, length)
    expected = [None if item is None else item.encode() for item in items[start : start + length]]
    assert list(Strings.of_column(column)) == expected


@pytest.mark.parametrize("items", [[], [None], [b""], [INLINE], [LONG], [INLINE, None, LONG, b"", LONG * 1000] * 9])
def test_strings_in_their_view_and_in_buffers(items):
    assert list(Strings.of_column(pl.Series("", items, dtype=pl.Binary))) == items


def test_a_column_of_pyarrow_that_begins_in_the_middle_of_a_byte_of_its_bitmap():
    items = ["a", None, "b" * 50, None, "c", "d" * 13] * 4
    column = pa.chunked_array([pa.array(items, pa.string_view())[3:], pa.array(items, pa.string_view())[9:11]])
    expected = [None if item is None else item.encode() for item in items[3:] + items[9:11]]
    assert list(Strings.of_column(column)) == expected


@pytest.mark.parametrize("column", [pl.Series([1]), pl.Series([None]), pl.Series([["a"]]), pa.chunked_array([["a"]])])
def test_a_column_of_something_else_is_refused(column):
    with pytest.raises(TypeError, match="holds no text or bytes as views"):
        Strings.of_column(column)


def test_strings_outlive_their_column_and_what_becomes_of_it():
    column = pl.Series("", [LONG, INLINE] * 100)
    strings = Strings.of_column(column)
    part = strings[1:3]
    column[0] = b"other"
    del column, strings
    gc.collect()
    pl.Series("", [b"z" * 13, b"z" * 12] * 100)
    assert list(part) == [INLINE, LONG]
