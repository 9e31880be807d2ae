"""Sessions: the same however rows are cut into batches and in whatever order they come, as long as none is late."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from statemgr.state import TableSpec, json_codec
from tests.unit.towpath.operators.recording import RecordingContext
from towpath.operators.aggregates import Aggregates
from towpath.operators.keyed_rows import KeyedRows
from towpath.operators.late import LateRows
from towpath.operators.sessions import Sessions, SessionWindows
from towpath.query import agg

TABLES = [TableSpec("t", 0, json_codec(list[list]))]
GAP = 10
END = 10**6
COLUMNS = {"n": agg.count(), "most": agg.max("t")}


def operator():
    sessions = Sessions(GAP, "t", Aggregates(COLUMNS))
    kept = KeyedRows(["k"], sessions, "t").kept(frame([]))
    return SessionWindows({"k": pl.Int64()}, sessions, kept, "t")


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
    context = RecordingContext(TABLES, 1)
    sessions = Sessions(GAP, "t", Aggregates(COLUMNS))
    kept = KeyedRows(["k"], sessions, "t").kept(frame([]))
    window = SessionWindows({"k": pl.Int64()}, sessions, kept, "t", LateRows("late"))
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
