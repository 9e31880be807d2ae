"""Interval joins: the same pairs however rows are cut into batches and ordered, and no row is kept too long."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.towpath.operators.joined_rows import frame
from tests.unit.towpath.operators.recording import RecordingContext, lists_spec
from towpath.operators.interval_join import IntervalJoin, IntervalPairs

TABLES = [lists_spec("join")]
END = 10**6


def operator(lower=-5, upper=10):
    return IntervalJoin(["k"], IntervalPairs(["l"], {"r": "right.r"}, lower, upper), "join")


def pairs(found):
    assert found.columns == ["k", "l", "r", "__partition", "__events"]
    return sorted(found.select("k", "l", "r").rows())


def expected(rows, lower, upper):
    return sorted(
        (key, left, right)
        for key, of_right, time, left in rows
        if not of_right
        for other, theirs, their_time, right in rows
        if theirs and other == key and lower <= their_time - time <= upper
    )


ROWS = st.lists(st.tuples(st.integers(0, 1), st.booleans(), st.integers(0, 30)), max_size=6)


@given(st.lists(ROWS, max_size=5), st.integers(-12, 12), st.integers(0, 20))
def test_every_pair_comes_out_once(batches, lower, width):
    context, join = RecordingContext(TABLES, 1), operator(lower, lower + width)
    numbered = iter(range(1_000))
    rows, found = [], []
    for batch in batches:
        new = [(*row, next(numbered)) for row in batch]
        rows += new
        found += pairs(join.process(frame(new), context))
    assert sorted(found) == expected(rows, lower, lower + width)


@given(st.lists(ROWS, min_size=1, max_size=6), st.integers(-12, 12), st.integers(0, 20))
def test_rows_that_come_in_time_meet_all_their_partners_though_rows_are_forgotten(batches, lower, width):
    context, join = RecordingContext(TABLES, 1), operator(lower, lower + width)
    numbered, watermark = iter(range(1_000)), -1
    rows, found = [], []
    for batch in batches:
        new = [(*row, next(numbered)) for row in batch]
        rows += [row for row in new if row[2] > watermark]
        found += pairs(join.process(frame(new, watermark), context))
        watermark += 7
        assert join.close(0, watermark, context, 1_000).height == 0
        due = join.timers.of(0, context).earliest
        assert due is None or due > watermark
    assert sorted(found) == expected(rows, lower, lower + width)
    join.close(0, END, context, 1_000)
    assert not any(context.table("join").values())
    assert join.timers.of(0, context).earliest is None


def test_rows_at_or_behind_the_watermark_are_late():
    context, join = RecordingContext(TABLES, 1), operator()
    join.process(frame([(1, False, 20, 1), (1, True, 21, 2), (2, False, 3, 3)], watermark=20), context)
    assert context.late_rows == 2
    assert pairs(join.process(frame([(1, False, 22, 4)], watermark=20), context)) == [(1, 4, 2)]


def test_what_may_be_forgotten_is_found_again_in_the_state():
    context, join = RecordingContext(TABLES, 1), operator()
    join.process(frame([(1, False, 0, 1), (1, True, 40, 2), (2, True, 7, 3)]), context)
    assert join.timers.of(0, context).earliest == operator().timers.of(0, context).earliest == 10
    again = operator()
    again.close(0, 12, context, 1_000)
    assert again.timers.of(0, context).earliest == 45
    assert pairs(again.process(frame([(1, True, 5, 4), (2, False, 9, 5), (1, False, 41, 6)]), context)) == [(1, 6, 2)]
