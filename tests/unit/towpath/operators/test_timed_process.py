"""Event-at-a-time code with timers: what it sees does not depend on batches."""

from __future__ import annotations

import json
from itertools import pairwise

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from statemgr.errors import CodecError
from statemgr.state import TableSpec, json_codec
from tests.unit.towpath.operators.recording import RecordingContext
from towpath.operators.expiry import Expiry
from towpath.operators.timed_process import Code, KeyTimers, TimedProcess, TimedValue

NEVER = -(2**62)
TABLES = [TableSpec("t", 0, json_codec(TimedValue[int]))]
OUT = {"k": pl.Int64, "what": pl.String, "n": pl.Int64}
SCHEMA = {"k": pl.Int64, "t": pl.Int64, "__sched_ms": pl.Int64, "__watermark": pl.Int64, "__partition": pl.Int32}
END = 10**6


def count_and_remind(row, state, timers):
    """Counts rows until nothing has come for 10 ms."""
    state.set(state.get(0) + 1)
    for time in timers.times:
        timers.cancel(time)
    timers.set(row["t"] + 10)
    return [{"k": row["k"], "what": "row", "n": state.get()}]


def ended(key, time_ms, state, timers):
    n = state.get()
    state.delete()
    return [{"k": key["k"], "what": f"ended {time_ms}", "n": n}]


def operator(on_row=count_and_remind, on_timer=ended, ttl=None):
    expiry = None if ttl is None else Expiry(ttl, "t")
    return TimedProcess({"k": pl.Int64()}, Code(on_row, on_timer, expiry), OUT, "t")


def frame(rows):
    """Rows of key, time and watermark."""
    found = [(key, time, 7, mark, 0) for key, time, mark in rows]
    return pl.DataFrame(found, schema=SCHEMA, orient="row")


def seen(frames):
    return [row for each in frames for row in each.select("k", "what", "n").rows()]


def test_a_timer_goes_off_when_the_watermark_is_there():
    context, process = RecordingContext(TABLES, 1), operator()
    out = process.process(frame([(1, 0, NEVER), (1, 5, NEVER), (2, 1, NEVER)]), context)
    assert seen([out]) == [(1, "row", 1), (1, "row", 2), (2, "row", 1)]
    assert process.timers.of(0, context).earliest == 11
    assert seen([process.close(0, 10, context, 100)]) == []
    assert seen([process.close(0, 15, context, 100)]) == [(2, "ended 11", 1), (1, "ended 15", 2)]
    assert context.table("t") == {}
    assert process.timers.of(0, context).earliest is None


def test_timers_go_off_before_a_row_that_came_when_they_were_due():
    context, process = RecordingContext(TABLES, 1), operator()
    out = process.process(frame([(1, 0, NEVER), (2, 3, NEVER), (1, 30, 25)]), context)
    assert seen([out]) == [(1, "row", 1), (2, "row", 1), (1, "ended 10", 1), (1, "row", 1)]
    fired = out.filter(pl.col("what") == "ended 10")
    assert fired.select("__sched_ms", "__watermark", "__partition").rows() == [(None, 25, 0)]


streams = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 4), st.integers(0, 3)), max_size=20)


def timed(stream):
    rows, now, mark = [], 0, NEVER
    for key, further, behind in stream:
        now += further * 4
        rows.append((key, now - behind, mark))
        mark = max(mark, now - behind - 3)
    return rows


def by_key(rows):
    found = {}
    for key, *rest in rows:
        found.setdefault(key, []).append(rest)
    return found


@pytest.mark.parametrize("ttl", [None, 7, 30])
@settings(deadline=None)
@given(stream=streams, cuts=st.lists(st.integers(0, 20), max_size=6))
def test_each_key_sees_the_same_however_rows_are_cut(ttl, stream, cuts):
    rows = timed(stream)

    def out(places):
        context, process, frames = RecordingContext(TABLES, 1), operator(ttl=ttl), []
        bounds = sorted({0, len(rows), *(place for place in places if place < len(rows))})
        for begin, end in pairwise(bounds):
            frames.append(process.process(frame(rows[begin:end]), context))
            reached = rows[end - 1][2]
            due = process.timers.of(0, context).earliest
            if due is not None and due <= reached and begin % 2:
                frames.append(process.close(0, reached, context, 1))
        while (due := process.timers.of(0, context).earliest) is not None and due <= END:
            frames.append(process.close(0, END, context, 2))
        assert context.table("t") == {}
        return by_key(seen(frames))

    assert out(cuts) == out([])


def test_timers_are_found_again_in_the_state():
    context = RecordingContext(TABLES, 1)
    operator().process(frame([(1, 0, NEVER)]), context)
    again = operator()
    assert again.timers.of(0, context).earliest == 10
    assert seen([again.close(0, 10, context, 100)]) == [(1, "ended 10", 1)]


def test_a_timer_may_set_later_ones_and_only_so_many_go_off_at_a_time():
    def again(key, time_ms, state, timers):
        timers.set(time_ms + 1)
        return [{"k": key["k"], "what": str(time_ms), "n": 0}]

    context, process = RecordingContext(TABLES, 1), operator(on_timer=again)
    process.process(frame([(1, 0, NEVER)]), context)
    assert process.close(0, 1000, context, 5).get_column("what").to_list() == ["10", "11", "12", "13", "14"]
    assert process.timers.of(0, context).earliest == 15


def test_what_fails_is_a_dead_letter_and_changes_nothing_else():
    def failing(row, state, timers):
        state.set(9)
        timers.set(row["t"] + 1)
        if row["t"] == 5:
            raise ValueError("no")
        return [{"k": "x" if row["t"] == 6 else row["k"], "what": "row", "n": 0}]

    def bad_timer(key, time_ms, state, timers):
        timers.set(time_ms)

    context, process = RecordingContext(TABLES, 1), operator(failing, bad_timer)
    out = process.process(frame([(1, 5, NEVER), (2, 6, NEVER), (3, 7, NEVER)]), context)
    assert seen([out]) == [(3, "row", 0)]
    assert context.table("t") == {b"3": TimedValue(9, (8,))}
    assert process.close(0, 8, context, 10).height == 0
    letters = [(json.loads(value), reason) for _, value, reason in context.dead]
    assert [(letter["k"], reason.split(":")[0]) for letter, reason in letters] == [
        (1, "ValueError"),
        (2, "ComputeError"),
        (3, "ValueError"),
    ]
    assert letters[2][0] == {"k": 3, "timer_ms": 8}
    assert "goes off now" in letters[2][1]
    assert context.table("t") == {b"3": TimedValue(9, ())}


def test_a_value_that_state_cannot_hold_is_found_at_its_row():
    def wrong(row, state, timers):
        state.set("text")
        return []

    context, process = RecordingContext(TABLES, 1), operator(wrong)
    process.process(frame([(1, 5, NEVER)]), context)
    ((_, _, reason),) = context.dead
    assert reason.startswith(CodecError.__name__)
    assert context.table("t") == {}


def test_state_goes_away_with_its_timers_when_no_row_has_come_for_long():
    def keep(row, state, timers):
        state.set(state.get(0) + 1)
        timers.set(500)
        return [{"k": row["k"], "what": "row", "n": state.get()}]

    context, process = RecordingContext(TABLES, 1), operator(keep, ttl=100)
    out = process.process(frame([(1, 0, NEVER), (1, 50, 40), (1, 200, 149), (1, 300, 299), (1, 301, 300)]), context)
    assert [n for _, _, n in seen([out])] == [1, 2, 3, 4, 5]
    out = process.process(frame([(1, 600, 401)]), context)
    assert seen([out]) == [(1, "row", 1)]
    process.close(0, 720, context, 10)
    assert context.table("t") == {}


def test_timers_are_whole_numbers_each_set_once():
    timers = KeyTimers([5], NEVER)
    timers.set(7)
    timers.set(5)
    timers.set(6)
    timers.cancel(1)
    assert timers.times == (5, 6, 7)
    assert timers.watermark_ms is None
    with pytest.raises(TypeError, match="whole ms"):
        timers.set(1.5)
