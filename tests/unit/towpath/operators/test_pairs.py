"""Joins of rows in the same window: every pair once, however rows are cut into batches."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemgr.lists import CHUNK_ROWS
from tests.unit.towpath.operators.joined_rows import frame
from tests.unit.towpath.operators.recording import RecordingContext, lists_spec
from towpath.operators.keyed_rows import kept_schema
from towpath.operators.pairs import Pairs, WindowPairs
from towpath.operators.windowed_rows import WindowedRows
from towpath.operators.windows import AssignWindows, Window

TABLES = [lists_spec("join")]
SIZE = 10
END = 10**6


class Joined:
    """Assignment and join, as they follow each other in a stage."""

    def __init__(self, pairs, window=Window(SIZE, SIZE), *, updates=False):  # noqa: B008 - it is frozen
        self.context = RecordingContext(TABLES, 1)
        self._assign = AssignWindows(window, "join.time")
        kept = kept_schema(self._assign.process(frame([]), self.context), ["k", "window_end"], pairs)
        self.rows = WindowedRows({"k": pl.Int64()}, window, pairs, kept, "join", updates=updates)

    def process(self, rows, watermark=None):
        found = self.rows.process(self._assign.process(frame(rows, watermark), self.context), self.context)
        assert found.columns[:5] == ["k", "window_start", "window_end", "l", "r"]
        return found.select("k", "window_start", "l", "r").rows()

    def close(self, watermark=END):
        found = self.rows.close(0, watermark, self.context, 1_000)
        assert not found.height or found.columns == ["k", "window_start", "window_end", "l", "r", "__partition"]
        return found.select("k", "window_start", "l", "r").rows() if found.height else []


def at_close(how="inner"):
    return Joined(WindowPairs(["l"], {"r": "right.r"}, how))


def in_order(pairs):
    return sorted(pairs, key=lambda pair: (*pair[:3], pair[3] is None, pair[3]))


def expected(rows, how="inner"):
    found = []
    for key, of_right, time, left in rows:
        start = time // SIZE * SIZE
        if not of_right:
            partners = [
                number for other, right, at, number in rows if right and other == key and at // SIZE * SIZE == start
            ]
            found += [(key, start, left, partner) for partner in partners or ([None] if how == "left" else [])]
    return in_order(found)


BATCHES = st.lists(
    st.lists(st.tuples(st.integers(0, 1), st.booleans(), st.integers(0, 30)), max_size=6),
    max_size=5,
)


def numbered(batches):
    numbers = iter(range(1_000))
    return [[(*row, next(numbers)) for row in batch] for batch in batches]


@given(BATCHES, st.sampled_from(["inner", "left"]))
def test_every_pair_comes_out_once_when_its_window_closes(batches, how):
    join = at_close(how)
    batches = numbered(batches)
    for batch in batches:
        assert join.process(batch) == []
    found = join.close(SIZE) + join.close()
    assert in_order(found) == expected([row for batch in batches for row in batch], how)
    assert not any(join.context.table("join").values())


@given(BATCHES)
def test_pairs_can_be_made_again_of_all_rows_when_their_window_closes(batches):
    join = Joined(Pairs(["l"], {"r": "right.r"}))
    batches = numbered(batches)
    for batch in batches:
        assert join.process(batch) == []
    assert in_order(join.close()) == expected([row for batch in batches for row in batch])


@given(BATCHES)
def test_every_pair_comes_out_once_when_the_later_of_its_rows_comes(batches):
    join = Joined(Pairs(["l"], {"r": "right.r"}), updates=True)
    rows, found = [], []
    for batch in numbered(batches):
        rows += batch
        found += join.process(batch)
        assert in_order(found) == expected(rows)
    assert join.close() == []
    assert not any(join.context.table("join").values())


@pytest.mark.parametrize(("how", "alone"), [("inner", []), ("left", [(1, 0, 1, None)])])
def test_a_row_without_a_partner(how, alone):
    join = at_close(how)
    join.process([(1, False, 3, 1), (1, True, 12, 2), (2, True, 3, 3)])
    assert join.close(SIZE) == alone
    assert join.close() == []


def test_hopping_windows_have_each_pair_once_for_each_of_them():
    join = Joined(WindowPairs(["l"], {"r": "right.r"}, "inner"), Window(SIZE, SIZE // 2))
    join.process([(1, False, 6, 1), (1, True, 8, 2), (1, True, 11, 3)])
    assert in_order(join.close()) == [(1, 0, 1, 2), (1, 5, 1, 2), (1, 5, 1, 3)]


def test_rows_that_are_late_for_their_window_meet_nobody():
    join = at_close()
    join.process([(1, False, 3, 1)], watermark=0)
    join.process([(1, True, 4, 2), (1, True, 12, 3), (1, False, 13, 4)], watermark=SIZE)
    assert join.context.late_rows == 1
    assert join.close() == [(1, 10, 4, 3)]


def test_what_is_open_is_found_again_in_the_state():
    join = at_close()
    join.process([(1, False, 3, 1), (1, True, 4, 2)])
    again = Joined(WindowPairs(["l"], {"r": "right.r"}, "inner"))
    again.context = join.context
    assert again.rows.timers.of(0, again.context).earliest == SIZE
    assert again.close() == [(1, 0, 1, 2)]


def test_rows_of_a_window_are_neither_read_nor_written_again_before_it_closes():
    join, written = at_close(), 0
    rows = [(1, number % 4 == 0, number % SIZE, number) for number in range(200)]
    for row in rows:
        join.process([row])
        written += join.context.commit()
    assert written == 200 + 200 // CHUNK_ROWS
    join.context.tasks[0].discard()
    join.process([(1, False, 0, 200)])
    assert join.context.tasks[0].lists("join").chunks.cached_entries == 0
    join.context.commit()
    assert in_order(join.close()) == expected([*rows, (1, False, 0, 200)])
    join.context.commit()
    with join.context.tasks[0].store.scan() as entries:
        assert list(entries) == []
