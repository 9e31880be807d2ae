"""Sessions: the same however rows are cut into batches and in whatever order they come, as long as none is late."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from statemgr.state import TableSpec, json_codec
from tests.unit.towpath.operators.recording import RecordingContext
from towpath.operators.aggregates import Aggregates
from towpath.operators.keyed_rows import kept_schema
from towpath.operators.late import COUNTED, LateRows
from towpath.operators.session_rows import Item, judged, numbered
from towpath.operators.sessions import Sessions, SessionWindows
from towpath.query import agg

TABLES = [TableSpec("t", 0, json_codec(list[list]))]
GAP = 10
END = 10**6
COLUMNS = {"n": agg.count(), "most": agg.max("t")}


def operator(late=COUNTED):
    sessions = Sessions(GAP, "t", Aggregates(COLUMNS))
    kept = kept_schema(frame([]), ["k"], sessions)
    return SessionWindows({"k": pl.Int64()}, sessions, kept, "t", late)


def frame(rows, watermark=None):
    columns = {"k": pl.Int64, "t": pl.Int64, "__partition": pl.Int32}
    found = pl.DataFrame([(key, time, 0) for key, time in rows], schema=columns, orient="row")
    return found if watermark is None else found.with_columns(pl.lit(watermark, pl.Int64).alias("__watermark"))


def closed(window, context, watermark=END):
    result = window.close(0, watermark, context, 1000)
    assert result.columns == ["k", "window_start", "window_end", "n", "most", "__partition"]
    return sorted(result.drop("__partition").rows())


def expected(rows):
    found = []
    for key in {key for key, _ in rows}:
        times = sorted(time for each, time in rows if each == key)
        groups = [[times[0]]]
        for time in times[1:]:
            groups[-1].append(time) if time - groups[-1][-1] <= GAP else groups.append([time])
        found += [(key, group[0], group[-1] + GAP, len(group), group[-1]) for group in groups]
    return sorted(found)


@given(st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 100)), max_size=8), max_size=5))
def test_sessions_are_those_of_all_rows(batches):
    context, window = RecordingContext(TABLES, 1), operator()
    for batch in batches:
        assert window.process(frame(batch), context).height == 0
    rows = [row for batch in batches for row in batch]
    assert closed(window, context) == expected(rows)
    assert context.table("t") == {} or all(not value for value in context.table("t").values())
    assert window.timers.of(0, context).earliest is None


def test_a_session_ends_when_the_watermark_is_at_its_end_and_others_of_its_key_go_on():
    context, window = RecordingContext(TABLES, 1), operator()
    window.process(frame([(1, 0), (1, 5), (1, 40), (2, 7)]), context)
    assert window.timers.of(0, context).earliest == 10
    assert closed(window, context, 14) == []
    assert closed(window, context, 15) == [(1, 0, 15, 2, 5)]
    assert closed(window, context, 49) == [(2, 7, 17, 1, 7)]
    assert closed(window, context, 50) == [(1, 40, 50, 1, 40)]


def test_late_rows_are_left_out_unless_a_session_goes_on_where_they_are():
    context, window = RecordingContext(TABLES, 1), operator()
    window.process(frame([(1, 100)], watermark=0), context)
    window.process(frame([(1, 50), (1, 92), (2, 80), (2, 85)], watermark=104), context)
    assert context.late_rows == 3
    assert closed(window, context) == [(1, 92, 110, 2, 100)]


def test_timers_are_found_again_in_the_state():
    context, window = RecordingContext(TABLES, 1), operator()
    window.process(frame([(1, 0), (1, 40), (2, 7)]), context)
    again = operator()
    assert again.timers.of(0, context).earliest == 10
    assert closed(again, context) == [(1, 0, 10, 1, 0), (1, 40, 50, 1, 40), (2, 7, 17, 1, 7)]


def test_rows_of_sessions_that_were_late_go_to_their_topic():
    context, window = RecordingContext(TABLES, 1), operator(LateRows("late"))
    window.process(frame([(1, 100)], watermark=0), context)
    window.process(frame([(1, 50), (1, 92), (2, 80), (2, 85)], watermark=104), context)
    ((topic, late),) = context.emitted
    assert topic == "late"
    assert late.columns == ["k", "t", "__partition"]
    assert sorted(late.select("k", "t").rows()) == [(1, 50), (2, 80), (2, 85)]
    assert context.late_rows == 3
    assert set(context.table("t")) == {b"1"}


def test_a_key_of_late_rows_alone_leaves_no_state():
    context, window = RecordingContext(TABLES, 1), operator()
    window.process(frame([(1, 50)], watermark=104), context)
    assert context.table("t") == {}


def test_a_late_row_does_not_join_one_that_comes_behind_it_in_the_same_batch():
    for batches in ([[(1, 90), (1, 96)]], [[(1, 90)], [(1, 96)]]):
        context, window = RecordingContext(TABLES, 1), operator()
        for batch in batches:
            window.process(frame(batch, watermark=104), context)
        assert context.late_rows == 1
        assert closed(window, context) == [(1, 96, 106, 1, 96)]


def test_a_late_row_joins_the_session_that_a_row_before_it_has_begun():
    context, window = RecordingContext(TABLES, 1), operator()
    window.process(frame([(1, 96), (1, 90)], watermark=104), context)
    assert context.late_rows == 0
    assert closed(window, context) == [(1, 90, 106, 2, 96)]


def test_a_session_that_has_ended_and_is_still_there_does_not_go_on():
    context, window = RecordingContext(TABLES, 1), operator()
    window.process(frame([(1, 80)], watermark=0), context)
    window.process(frame([(1, 88), (1, 95)], watermark=91), context)
    assert closed(window, context) == [(1, 80, 90, 1, 80), (1, 88, 105, 2, 95)]


def one_by_one(rows):
    """Sessions of one key, and the rows that are late: what each row meets as if it came alone."""
    done, late = [], []
    for time, watermark in rows:
        near = [each for each in done if each[-1] + GAP > watermark and each[0] - GAP <= time <= each[-1] + GAP]
        if not near and time + GAP <= watermark:
            late.append(time)
            continue
        done = [each for each in done if each not in near] + [sorted([time, *(t for each in near for t in each)])]
    return sorted((each[0], each[-1] + GAP, len(each), each[-1]) for each in done), sorted(late)


def at_watermarks(rows):
    columns = {"k": pl.Int64, "t": pl.Int64, "__watermark": pl.Int64, "__partition": pl.Int32}
    return pl.DataFrame([(*row, 0) for row in rows], schema=columns, orient="row")


STREAMS = st.lists(st.tuples(st.integers(0, 1), st.integers(-25, 25), st.integers(0, 9)), max_size=24)
"""Rows: key, event time behind or ahead of the watermark, how far that has gone on since the row before."""


@given(STREAMS, st.lists(st.tuples(st.integers(1, 9), st.booleans()), max_size=24))
def test_every_row_is_judged_as_if_it_came_alone(stream, cuts):
    rows, watermark = [], 0
    for key, ahead, further in stream:
        watermark += further
        rows.append((key, watermark + ahead, watermark))
    context, window = RecordingContext(TABLES, 1), operator(LateRows("late"))
    found, left = [], rows
    for number, closes in [*cuts, (len(rows) + 1, True)]:
        batch, left = left[:number], left[number:]
        window.process(at_watermarks(batch), context)
        if closes and batch:
            found += closed(window, context, batch[-1][2])
    found += closed(window, context)
    expected = {key: one_by_one([(time, mark) for each, time, mark in rows if each == key]) for key in (0, 1)}
    assert sorted(found) == sorted((key, *session) for key, (done, _) in expected.items() for session in done)
    late = [row for _, frame in context.emitted for row in frame.select("k", "t").rows()]
    assert sorted(late) == sorted((key, time) for key, (_, times) in expected.items() for time in times)
    assert not any(context.table("t").values())


ITEMS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 4)), max_size=30)


@given(ITEMS)
def test_columns_and_rows_one_by_one_say_the_same(stream):
    items, watermark = [], 0
    for at, (time, further) in enumerate(stream):
        watermark += further
        items.append(Item(at, time, time, watermark))
    columns = {"__group": pl.UInt32, "first": pl.Int64, "last": pl.Int64, "__came": pl.Int64}
    rows = pl.DataFrame([(0, item.first, item.last, item.came) for item in items], schema=columns, orient="row")
    found = numbered(rows, GAP).sort("__at").get_column("__session").to_list()
    assert partition(found) == partition(judged(items, GAP))


def partition(numbers):
    """Which of them are equal, whatever they are; those that are none by themselves."""
    groups = {}
    for place, number in enumerate(numbers):
        groups.setdefault(number, []).append(place)
    return groups.pop(None, []), sorted(groups.values())
