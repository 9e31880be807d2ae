"""State that goes away: the same results however the input is cut into batches and whenever timers go off."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from statemgr.state import TableSpec, json_codec
from tests.unit.towpath.operators.recording import RecordingContext
from towpath.operators.aggregates import Aggregates
from towpath.operators.distinct import Distinct, ExpiringDistinct
from towpath.operators.expiring_rows import ExpiringRows
from towpath.operators.expiry import Expiry
from towpath.operators.keyed_rows import kept_schema
from towpath.operators.ranked import Ranked
from towpath.query import agg

TTL = 10
ROWS = [TableSpec("t", 0, json_codec(list[list]))]
SEEN = [TableSpec("t", 0, json_codec(int))]
SCHEMA = {
    "k": pl.Int64,
    "v": pl.Int64,
    "t": pl.Int64,
    "__sched_ms": pl.Int64,
    "__watermark": pl.Int64,
    "__partition": pl.Int32,
}

streams = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 4), st.integers(0, 3)), max_size=20)
"""Rows: key, value, how far event time goes on, how much later than that the row is."""

cuts = st.lists(st.integers(0, 20), max_size=6)


def timed(stream):
    """Rows as tuples of key, value, time and watermark; the watermark is 3 behind the newest row before."""
    rows, now, mark = [], 0, -(2**62)
    for key, value, further, behind in stream:
        now += further * 3
        rows.append((key, value, now - behind, mark))
        mark = max(mark, now - behind - 3)
    return rows


def frames(rows, places):
    bounds = sorted({0, len(rows), *(place for place in places if place < len(rows))})
    for begin, end in pairwise(bounds):
        found = [(key, value, time, number, mark, 0) for number, (key, value, time, mark) in enumerate(rows)][begin:end]
        yield pl.DataFrame(found, schema=SCHEMA, orient="row"), rows[end - 1]


def run(operator, tables, rows, places, *, closing=True):
    """What comes out, with timers that go off after every other batch."""
    context, out = RecordingContext(tables, 1), []
    for number, (frame, last) in enumerate(frames(rows, places)):
        out.append(operator.process(frame, context))
        reached = max(last[3], -(2**62))
        if closing and number % 2 == 0:
            due = operator.timers.of(0, context).earliest
            if due is not None and due <= reached:
                assert operator.close(0, reached, context, 2).height == 0
    return [row for frame in out for row in frame.iter_rows(named=True)], context


def aggregating():
    aggregates = Aggregates({"n": agg.count(), "most": agg.max("v")})
    kept = kept_schema(pl.DataFrame(schema=SCHEMA), ["k"], aggregates)
    return ExpiringRows(["k"], aggregates, kept, "t", Expiry(TTL, "t"))


def expected(rows, places):
    """Key → what goes out of it: count, maximum and number of events of each of its lives in each batch."""
    newest, life, sums, out = {}, {}, {}, {}
    begin = 0
    for frame, _ in frames(rows, places):
        batch = {}
        for key, value, time, mark in rows[begin : begin + frame.height]:
            if key in newest and newest[key] + TTL <= mark:
                life[key] = life.get(key, 0) + 1
            newest[key] = max(time, newest.get(key, time))
            at = key, life.get(key, 0)
            n, most = sums.get(at, (0, -1))
            sums[at] = n + 1, max(most, value)
            batch[at] = batch.get(at, 0) + 1
        for at, events in batch.items():
            out.setdefault(at[0], []).append((*sums[at], events))
        begin += frame.height
    kept = {str(key).encode(): [[*sums[key, life.get(key, 0)], newest[key]]] for key in newest}
    return out, kept


@settings(deadline=None)
@given(streams, cuts)
def test_aggregates_begin_anew_where_event_time_says_so(stream, places):
    rows = timed(stream)
    found, _ = run(aggregating(), ROWS, rows, places)
    out = {}
    for row in found:
        out.setdefault(row["k"], []).append((row["n"], row["most"], row["__events"]))
    assert out == expected(rows, places)[0]


@settings(deadline=None)
@given(streams, cuts)
def test_the_last_life_of_a_key_is_kept(stream, places):
    rows = timed(stream)
    _, context = run(aggregating(), ROWS, rows, places, closing=False)
    assert context.table("t") == expected(rows, places)[1]


@settings(deadline=None)
@given(streams, cuts)
def test_distinct_rows_are_those_of_a_loop(stream, places):
    rows = timed(stream)
    found, _ = run(ExpiringDistinct(["k", "v"], "t", Expiry(TTL, "t")), SEEN, rows, places)
    newest, expected = {}, []
    for number, (key, value, time, mark) in enumerate(rows):
        before = newest.get((key, value))
        if before is None or before + TTL <= mark:
            expected.append(number)
        newest[key, value] = time if before is None else max(time, before)
    assert [row["__sched_ms"] for row in found] == expected


@settings(deadline=None)
@given(streams, cuts)
def test_distinct_rows_without_end_are_the_first_ones(stream, places):
    rows = timed(stream)
    context, operator, found = RecordingContext(SEEN, 1), Distinct(["k"], "t"), []
    for frame, _ in frames(rows, places):
        found += operator.process(frame, context).rows(named=True)
    first = {}
    for number, (key, *_) in enumerate(rows):
        first.setdefault(key, number)
    assert [row["__sched_ms"] for row in found] == sorted(first.values())
    assert context.table("t").keys() == {str(key).encode() for key in first}


def test_rankings_of_a_key_begin_anew_amid_a_batch():
    ranked = Ranked(["v", "t"], 2, ["v"], [True], rank="place")
    kept = kept_schema(pl.DataFrame(schema=SCHEMA), ["k"], ranked)
    operator = ExpiringRows(["k"], ranked, kept, "t", Expiry(TTL, "t"))
    rows = [(1, 9, 0, -5), (1, 8, 5, -5), (1, 3, 20, 14), (1, 2, 21, 15), (1, 4, 40, 31)]
    found, context = run(operator, ROWS, rows, [])
    assert [(row["v"], row["place"], row["__events"]) for row in found] == [(9, 1, 4), (8, 2, 4), (4, 1, 1)]
    assert context.table("t") == {b"1": [[4, 40, 40]]}


def test_state_is_deleted_in_slices_when_nothing_has_come_for_long():
    operator, context = aggregating(), RecordingContext(ROWS, 1)
    rows = [(key, 1, 0, -100) for key in range(5)]
    for frame, _ in frames(rows, []):
        operator.process(frame, context)
    assert operator.timers.of(0, context).earliest == 10
    sizes = []
    while (due := operator.timers.of(0, context).earliest) is not None and due <= 10:
        operator.close(0, 10, context, 2)
        sizes.append(len(context.table("t")))
    assert sizes == [3, 1, 0]


def test_a_key_that_was_touched_stays_and_is_looked_at_again():
    operator, context = aggregating(), RecordingContext(ROWS, 1)
    for rows in ([(1, 1, 0, -100)], [(1, 1, 8, -100)]):
        for frame, _ in frames(rows, []):
            operator.process(frame, context)
    operator.close(0, 10, context, 9)
    assert context.table("t").keys() == {b"1"}
    assert operator.timers.of(0, context).earliest == 18
    again = aggregating()
    assert again.timers.of(0, context).earliest == 18
    again.close(0, 18, context, 9)
    assert context.table("t") == {}
