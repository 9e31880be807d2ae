from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nexmark.layout import Layout
from nexmark.text import MARGIN, Choices, Packed, Pool

WORDS = ("a", "bc", "def", "ghij" * 30)
numbers = st.integers(0, 2**63 - 1) | st.integers(0, 10**5)
rows = st.lists(st.tuples(numbers, numbers, st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12)


def texts(packed: Packed) -> list[str]:
    bounds = packed.starts.tolist()
    whole = packed.source.tobytes()
    return [whole[a:b].decode() for a, b in pairwise(bounds)]


@given(rows)
def test_rows_hold_their_pieces_in_order_whatever_varies_in_width(table):
    first, second, third, fourth = (np.array(column, dtype=np.int64) for column in zip(*table, strict=True))
    pick = Choices(WORDS).pick
    layout = Layout((b"<", first, b":", pick(third), b"|", second, pick(fourth), b">"), len(table))
    assert texts(layout.packed()) == [f"<{a}:{WORDS[c]}|{b}{WORDS[d]}>" for a, b, c, d in table]


@given(st.lists(numbers, min_size=1, max_size=30))
def test_rows_that_begin_with_a_number_do_not_touch_their_neighbours(values):
    layout = Layout((np.array(values, dtype=np.int64),), len(values))
    assert texts(layout.packed()) == [str(v) for v in values]


@given(rows)
def test_rows_are_written_anywhere_and_nothing_else_is_touched(table):
    index = np.array([row[2] for row in table])
    layout = Layout((Choices(WORDS).pick(index), b"-", np.array([row[0] for row in table])), len(table))
    out = np.full(300 * len(table) + 2 * MARGIN, ord("."), dtype=np.uint8)
    ends = 300 * np.arange(1, len(table) + 1)
    layout.write(out, ends)
    expected = [f"{WORDS[c]}-{a}".rjust(300, ".") for a, _, c, _ in table]
    assert out.tobytes().decode() == "".join(expected) + "." * (2 * MARGIN)


@given(st.lists(st.integers(0, 3), max_size=20))
def test_an_ascending_copy_repairs_what_wide_elements_clobber(index):
    text = Choices(WORDS).pick(np.array(index, dtype=np.int64))
    packed = Packed.allocate(text.length)
    text.write_ascending(packed.source, packed.starts[:-1])
    assert texts(packed) == [WORDS[i] for i in index]


@pytest.mark.parametrize("length", [1, 5, 20])
def test_slices_reach_both_ends_of_a_pool(length):
    pool = Pool(np.frombuffer(b"abcdefghijklmnopqrst", dtype=np.uint8))
    offset = np.array([0, pool.size - length])
    text = pool.slices(offset, np.full(2, length), length, length)
    expected = ["abcdefghijklmnopqrst"[o : o + length] for o in offset.tolist()]
    assert texts(Layout((text,), 2).packed()) == expected


def test_no_rows_take_no_room():
    empty = np.array([], dtype=np.int64)
    assert texts(Layout((b"x", empty, Choices(WORDS).pick(empty)), 0).packed()) == []
