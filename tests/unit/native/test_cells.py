"""Cells are a sequence of byte strings, whatever they lie in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from towpath_native.cells import Cells

ITEMS = st.lists(st.one_of(st.none(), st.binary(max_size=8)), max_size=12)


@given(ITEMS)
def test_cells_hold_what_they_are_made_of(items):
    cells = Cells.of(items)
    assert list(cells) == items
    assert [cells[place] for place in range(len(items))] == items
    assert [cells[place - len(items)] for place in range(len(items))] == items
    assert cells.sizes.tolist() == [len(item or b"") for item in items]


@given(ITEMS, st.slices(12))
def test_a_slice_is_one_of_the_items(items, places):
    assert list(Cells.of(items)[places]) == items[places]


@given(ITEMS.filter(bool), st.data())
def test_cells_at_places_are_the_items_there(items, data):
    places = data.draw(st.lists(st.integers(0, len(items) - 1), max_size=20))
    chosen = Cells.of(items).at(np.array(places, np.intp))
    assert list(chosen) == [items[place] for place in places]
    assert list(chosen[::-1]) == [items[place] for place in reversed(places)]


def test_an_empty_cell_is_not_an_absent_one():
    cells = Cells.of([b"", None])
    assert list(cells) == [b"", None]
    assert cells.absent.tolist() == [0, 1]


@pytest.mark.parametrize("items", [[], [None], [b""]])
def test_there_is_a_buffer_even_for_nothing(items):
    assert Cells.of(items).data.size


def test_a_place_behind_the_end_is_an_index_error():
    with pytest.raises(IndexError):
        Cells.of([b"a"])[1]


def test_bytes_that_are_in_no_cell_are_not_seen():
    data = np.frombuffer(b"..a..bc", np.uint8)
    cells = Cells(data, np.array([2, 5]), np.array([3, 7]), np.zeros(2, np.uint8))
    assert list(cells) == [b"a", b"bc"]
