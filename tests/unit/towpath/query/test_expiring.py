"""How state with a time to live, windows of rows and timers are written, and what is said of wrong ones."""

from __future__ import annotations

import polars as pl
import pytest

from towpath.query import ColumnTypeError, Query, QueryError, UnknownColumnError, agg, every, hopping, tumbling

SCHEMA = {"k": pl.Int64, "v": pl.Int64, "t": pl.Int64, "s": pl.String, "w": pl.Float64}
OUT = {"k": pl.Int64, "n": pl.Int64}


def keyed(**source):
    return Query("app").source("in", schema=SCHEMA, **source).key_by("k")


def timed():
    return keyed(event_time="t")


def on_row(row, state, timers):
    return []


def on_timer(key, time_ms, state, timers):
    return []


def test_what_comes_out_is_the_same_with_a_time_to_live():
    assert timed().aggregate(ttl_ms=5, n=agg.count()).schema == {"k": pl.Int64(), "n": pl.Int64()}
    assert timed().count("n", ttl_ms=5).schema == {"k": pl.Int64(), "n": pl.Int64()}
    assert list(timed().latest(by="v", ttl_ms=5).schema) == list(SCHEMA)
    assert list(timed().top(3, by="v", ttl_ms=5, ttl_on="v").schema) == [*SCHEMA, "rank_number"]
    assert list(timed().distinct("v", ttl_ms=5).schema) == list(SCHEMA)
    assert list(keyed().distinct().schema) == list(SCHEMA)
    assert timed().process(on_row, schema=OUT, on_timer=on_timer).schema == {"k": pl.Int64, "n": pl.Int64}
    plain = timed().process(lambda row, state: [], schema=OUT, ttl_ms=5, name="f")
    assert plain.schema == {"k": pl.Int64, "n": pl.Int64}
    assert keyed().window(every(10, over=30)).count("n").schema == {"k": pl.Int64(), "n": pl.Int64()}
    updates = timed().window(hopping(10, 5), on="t", emit="update").count("n")
    assert list(updates.schema) == ["k", "window_start", "window_end", "n"]


def test_the_event_time_crosses_the_edge_and_watermarks_travel():
    query = Query("app")
    rows = query.source("in", schema=SCHEMA, event_time="t")
    rows.key_by("k").aggregate(ttl_ms=5, n=agg.count()).sink("out")
    source, stage = query.plan().stages
    assert list(stage.inputs[0].schema) == ["k", "t"]
    assert source.event_time
    assert stage.event_time
    assert [operator.name for operator in stage.operators] == ["require_event_time", "aggregate"]


def test_timers_need_watermarks_and_no_column():
    query = Query("app")
    rows = query.source("in", schema=SCHEMA, event_time="t").select("k", "v")
    rows.key_by("k").process(on_row, schema=OUT, on_timer=on_timer).sink("out")
    assert all(stage.event_time for stage in query.plan().stages)


def test_both_sides_of_an_enrichment_have_their_own_time():
    query = Query("app")
    schema = {"id": pl.Int64, "at": pl.Int64, "f": pl.Int64}
    facts = query.source("facts", schema=schema, event_time="at", stage="facts")
    rows = query.source("in", schema=SCHEMA, event_time="t")
    found = rows.key_by("k").enrich(facts.key_by("id"), columns=["f"], ttl_ms=5)
    assert list(found.schema) == ["k", "v", "t", "s", "w", "f"]
    found.sink("out")
    assert all(stage.event_time for stage in query.plan().stages)


def test_late_rows_have_a_topic_of_the_plan_and_all_columns():
    query = Query("app", partitions=3)
    rows = query.source("in", schema=SCHEMA, event_time="t")
    rows.key_by("k").window(tumbling(10), on="t").late_to("late", key=(), partitions=2).count("n").sink("out")
    _, stage = query.plan().stages
    assert list(stage.inputs[0].schema) == list(SCHEMA)
    assert [(output.topic, output.partitions, output.default) for output in stage.outputs] == [
        ("out", 3, True),
        ("late", 2, False),
    ]


def late_twice():
    query = Query("app")
    windows = query.source("in", schema=SCHEMA, event_time="t").key_by("k").window(tumbling(9), on="t").late_to("out")
    windows.count("n").sink("out")
    return query.plan()


@pytest.mark.parametrize(
    ("write", "error", "text"),
    [
        (lambda: timed().aggregate(ttl_ms=0, n=agg.count()), QueryError, "ttl_ms=0"),
        (lambda: timed().latest(by="v", ttl_on="t"), QueryError, "ttl_ms not how much"),
        (lambda: keyed().latest(by="v", ttl_ms=5), QueryError, "source 'in' tells no event time"),
        (lambda: timed().latest(by="v", ttl_ms=5, ttl_on="x"), UnknownColumnError, "ttl_on: unknown column 'x'"),
        (lambda: timed().latest(by="v", ttl_ms=5, ttl_on="s"), ColumnTypeError, "'s' is String, and event time"),
        (lambda: timed().count(emit="each", ttl_ms=5), QueryError, "emit='batch'"),
        (lambda: timed().aggregate(ttl_ms=5, n=agg.sum("x")), UnknownColumnError, "unknown column 'x'"),
        (lambda: timed().aggregate(n=agg.count()).key_by("k").latest("n", ttl_ms=5), QueryError, "ttl_on='…'"),
        (lambda: timed().distinct("x"), UnknownColumnError, "unknown column 'x'"),
        (lambda: timed().distinct("w"), ColumnTypeError, "'w' is Float64"),
        (lambda: keyed().process(on_row, schema=OUT, on_timer=on_timer), QueryError, "tells no event time"),
        (lambda: keyed().window(every(0)), QueryError, "a window of 0 rows after every 0"),
        (lambda: keyed().window(every(2, over=5)), QueryError, "multiple of the rows between"),
        (lambda: keyed().window(every(2), on="t"), QueryError, "leave on and emit out"),
        (lambda: keyed().window(every(2)).top(1, by="v"), QueryError, "windows of so many rows: only count"),
        (lambda: keyed().window(every(2)).late_to("late").count(), QueryError, "no row is late"),
        (late_twice, QueryError, "two parts of the query write to topic 'out'"),
    ],
)
def test_what_is_wrong_is_said_when_it_is_written(write, error, text):
    with pytest.raises(error, match=text):
        write()
