"""How aggregates, rankings and look-ups are written, and what is said of wrong ones."""

from __future__ import annotations

import polars as pl
import pytest

from towpath.query import (
    BatchDependentError,
    ColumnTypeError,
    GraphError,
    Query,
    QueryError,
    UnknownColumnError,
    Until,
    agg,
    hopping,
    session,
    tumbling,
    until,
)
from towpath.testing import StageDriver

SCHEMA = {"k": pl.Int64, "v": pl.Int64, "t": pl.String, "w": pl.List(pl.Int64)}
TEN = tumbling(10)


def rows():
    return Query("app").source("in", schema=SCHEMA)


def keyed():
    return rows().key_by("k")


def timed():
    return Query("app").source("in", schema=SCHEMA, event_time="v").key_by("k")


def test_what_comes_out():
    found = keyed().aggregate(n=agg.count(), m=agg.mean("v"), first=agg.min("t"))
    assert found.schema == {"k": pl.Int64(), "n": pl.Int64(), "m": pl.Float64(), "first": pl.String()}
    found = keyed().aggregate(previous="_before", n=agg.count())
    assert found.schema == {"k": pl.Int64(), "n": pl.Int64(), "n_before": pl.Int64()}
    assert list(keyed().latest(by="v").schema) == ["k", "v", "t", "w"]
    assert list(keyed().top(3, by="v").schema) == ["k", "v", "t", "w", "rank_number"]
    query = Query("app")
    table = query.source("facts", schema={"id": pl.Int64, "t": pl.String, "fact": pl.Int64}, stage="facts").key_by("id")
    found = query.source("in", schema=SCHEMA).key_by("k").enrich(table, columns={"other": "fact", "t": "t"})
    assert found.schema == {
        "k": pl.Int64(),
        "v": pl.Int64(),
        "w": pl.List(pl.Int64),
        "other": pl.Int64(),
        "t": pl.String(),
    }
    assert rows().explode("w").schema["w"] == pl.Int64
    table = pl.DataFrame({"t": ["a"], "name": ["A"]})
    assert list(rows().lookup(table, on="t").schema) == ["k", "v", "t", "w", "name"]


def test_only_what_an_aggregate_reads_crosses_the_edge():
    query = Query("app")
    query.source("in", schema=SCHEMA).key_by("k").aggregate(n=agg.sum("v", where=pl.col("t") == "a")).sink("out")
    _, aggregate = query.plan().stages
    assert list(aggregate.inputs[0].schema) == ["k", "v", "t"]
    assert [table.name for table in aggregate.tables] == ["aggregate"]


def test_rows_stay_where_they_are_when_they_are_aggregated_by_the_same_key_again():
    found = keyed().latest(by="v").key_by("k").aggregate(n=agg.count())
    assert found._place.stage == "latest"


@pytest.mark.parametrize(
    ("write", "error", "text"),
    [
        (lambda: keyed().aggregate(), QueryError, "at least one column"),
        (lambda: keyed().aggregate(k=agg.count()), QueryError, "the key has the name 'k'"),
        (lambda: keyed().aggregate(previous="", n=agg.count()), QueryError, "two columns named 'n'"),
        (
            lambda: rows().key_by("v").aggregate(previous="v", **{"": agg.count()}),
            QueryError,
            "the key has the name 'v'",
        ),
        (lambda: keyed().aggregate(__n=agg.count()), QueryError, "reserved"),
        (lambda: keyed().aggregate(n=agg.sum("x")), UnknownColumnError, "unknown column 'x'"),
        (lambda: keyed().aggregate(n=agg.sum(pl.col("v").cum_sum())), BatchDependentError, "other rows of the batch"),
        (lambda: keyed().aggregate(n=agg.max(pl.col("v").cast(pl.Decimal(9, 2)))), ColumnTypeError, "kept in state"),
        (lambda: keyed().latest(by="vv"), UnknownColumnError, "did you mean 'v'"),
        (lambda: keyed().latest(by="k"), QueryError, "is the key"),
        (lambda: keyed().latest(by=()), QueryError, "names no column"),
        (lambda: keyed().top(0, by="v"), QueryError, "at least one place"),
        (lambda: keyed().top(1, by="v", descending=[True, False]), QueryError, "1 columns in by, but 2"),
        (lambda: keyed().top(1, by="v", rank="t"), QueryError, "is a column already"),
        (lambda: keyed().window(tumbling(10), on="v"), QueryError, "source 'in' tells no event time"),
        (lambda: timed().window(tumbling(10), on="x"), UnknownColumnError, "unknown column 'x'"),
        (lambda: timed().window(tumbling(10), on="t"), ColumnTypeError, "'t' is String, and event time is Int64"),
        (lambda: timed().window(tumbling(0), on="v"), QueryError, "a window of 0 ms every 0 ms"),
        (lambda: timed().window(session(0), on="v"), QueryError, "gap of 0 ms"),
        (lambda: timed().window(session(9), on="v", emit="update"), QueryError, "no later row takes back"),
        (lambda: timed().window(tumbling(9), on="v", emit="each"), QueryError, "emit is 'close' or 'update'"),
        (lambda: timed().window(tumbling(9), on="v", emit="update").highest("v"), QueryError, "use top"),
        (lambda: timed().window(tumbling(9), on="v").late_to("l", key="x").count(), UnknownColumnError, "column 'x'"),
        (lambda: timed().window(tumbling(9), on="v").late_to("a b").count(), QueryError, "no topic name"),
        (lambda: timed().window(session(9), on="v").top(1, by="t"), QueryError, "only count and aggregate"),
        (lambda: timed().window(hopping(10, 3), on="v"), QueryError, "multiple of the slide"),
        (lambda: timed().window(tumbling(10), on="v").aggregate(window_end=agg.count()), QueryError, "window_end"),
        (lambda: timed().window(tumbling(10), on="v").highest("k"), QueryError, "is the key"),
        (lambda: Query("app").source("in", schema=SCHEMA, event_time="vv"), UnknownColumnError, "did you mean 'v'"),
        (lambda: Query("app").source("in", schema=SCHEMA, event_time="t"), ColumnTypeError, "'t' is String"),
        (lambda: Query("app").source("in", schema=SCHEMA, event_time="v", lag_ms=-1), QueryError, "lag_ms=-1"),
        (lambda: rows().explode("ww"), UnknownColumnError, "did you mean 'w'"),
        (lambda: rows().explode("v"), ColumnTypeError, "'v' is Int64, not a list"),
        (lambda: keyed().enrich(keyed(), columns=["x"]), UnknownColumnError, "the table: unknown column 'x'"),
        (lambda: keyed().enrich(keyed(), columns={"k": "v"}), QueryError, "is the key, and the same"),
        (lambda: keyed().enrich(rows().key_by("t"), columns=["v"]), ColumnTypeError, "key k Int64, the table t String"),
        (
            lambda: keyed().enrich(rows().key_by("k", "t"), columns=["v"]),
            ColumnTypeError,
            "the table k Int64, t String",
        ),
        (lambda: keyed().enrich(keyed(), columns=["v"]), GraphError, "streams of two queries"),
        (lambda: rows().lookup(pl.DataFrame({"t": ["a", "a"]}), on="t"), QueryError, "several rows for one value of t"),
        (lambda: rows().lookup(pl.DataFrame({"t": ["a"], "v": [1]}), on="t"), QueryError, "both have v"),
        (lambda: rows().lookup(pl.DataFrame({"u": ["a"]}), on="t"), UnknownColumnError, "the table: unknown column"),
        (lambda: rows().lookup(pl.DataFrame({"x": ["a"]}), on="x"), UnknownColumnError, "unknown column 'x'"),
        (lambda: rows().lookup(pl.DataFrame({"t": [1]}), on="t"), ColumnTypeError, "lookup"),
        (lambda: rows().lookup(pl.DataFrame({"t": ["a"]}), on="t", how="outer"), QueryError, "'inner' or 'left'"),
    ],
)
def test_what_is_wrong_is_said_when_it_is_written(write, error, text):
    with pytest.raises(error, match=text):
        write()


def test_word_count():
    query = Query("words")
    lines = query.source("lines", schema={"line": pl.String})
    words = lines.select(word=pl.col("line").str.split(" ")).explode("word")
    words.key_by("word").count().sink("word-count", key="word")
    driver = StageDriver(query)
    driver.pipe("lines", [{"line": "to be or not to be"}, {"line": None}, {"line": "to do"}])
    driver.run_until_idle()
    last = {row["word"]: row["count"] for row in driver.rows("word-count")}
    driver.close()
    assert last == {"to": 3, "be": 2, "or": 1, "not": 1, "do": 1}


def test_rows_of_one_topic_are_enriched_with_those_of_another():
    query = Query("app", partitions=2)
    people = query.source("people", schema={"id": pl.Int64, "name": pl.String}, stage="people")
    sales = query.source("sales", schema={"seller": pl.Int64, "item": pl.String}, stage="sales")
    found = sales.key_by("seller").stage("join").enrich(people.key_by("id"), columns=["name"])
    found.sink("out", key="seller")
    driver = StageDriver(query)
    for topic, row in [
        ("sales", {"seller": 1, "item": "a"}),
        ("people", {"id": 1, "name": "Ann"}),
        ("people", {"id": 2, "name": "Bob"}),
        ("sales", {"seller": 2, "item": "b"}),
        ("sales", {"seller": 3, "item": "c"}),
    ]:
        driver.pipe(topic, [row])
        driver.run_until_idle()
    rows_out = [(row["seller"], row["item"], row["name"]) for row in driver.rows("out")]
    driver.close()
    assert sorted(rows_out) == [(1, "a", "Ann"), (2, "b", "Bob")]


def sides(**right):
    query = Query("app")
    left = query.source("in", schema=SCHEMA, event_time="v").key_by("k")
    source = {"schema": {"id": pl.Int64, "v": pl.Int64, "fact": pl.String, "t": pl.String}, "event_time": "v", **right}
    return left, query.source("facts", stage="facts", **source).key_by("id")


def test_what_comes_out_of_a_join():
    left, right = sides()
    found = left.stage("near").join(right, on="v", within=(-5, 10), columns={"fact": "fact", "other": "t"})
    assert found.schema == {**SCHEMA, "fact": pl.String, "other": pl.String}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"within": (10, 5)}, r"within=\(10, 5\), but the lower bound comes first"),
        ({"on": ("v", "at")}, "unknown column 'at'"),
        ({"on": "t"}, "column 't' is String, and event time is Int64"),
        ({"columns": ["fakt"]}, "the right side: unknown column 'fakt'; did you mean 'fact'"),
        ({"columns": ["t"]}, "the left side has a column 't', too"),
    ],
)
def test_a_join_that_does_not_fit(change, message):
    left, right = sides()
    with pytest.raises(QueryError, match=message):
        left.join(right, **{"on": "v", "within": (0, 1), "columns": ["fact"], **change})


def test_a_join_needs_event_time_and_keys_that_can_meet():
    left, right = sides(event_time=None)
    with pytest.raises(QueryError, match="source 'facts' tells no event time"):
        left.join(right, on="v", within=(0, 1), columns=["fact"])
    left, right = sides(schema={"id": pl.String, "v": pl.Int64, "fact": pl.String})
    with pytest.raises(ColumnTypeError, match="the left side has the key k Int64, the right side id String"):
        left.join(right, on="v", within=(0, 1), columns=["fact"])


def windowed(left_window=TEN, right_window=TEN, *, on="v", **how):
    left, right = sides()
    by = {} if isinstance(left_window, Until) else {"on": on}
    ours = left.stage("near").window(left_window, **by, **how)
    return ours, right.window(right_window, **({} if isinstance(right_window, Until) else {"on": on}), **how)


@pytest.mark.parametrize("how", ["inner", "left"])
def test_what_comes_out_of_a_join_of_windows(how):
    left, right = windowed()
    found = left.join(right, columns={"fact": "fact", "other": "t"}, how=how)
    bounds = {"window_start": pl.Int64, "window_end": pl.Int64}
    assert found.schema == {"k": pl.Int64, **bounds, **without_key(), "fact": pl.String, "other": pl.String}


def test_what_comes_out_of_a_join_of_windows_that_rows_end():
    left, right = windowed(until("v"), until("v"))
    found = left.join(right, columns=["fact"])
    assert found.schema == {"k": pl.Int64, "window_end": pl.Int64, **without_key(), "fact": pl.String}


def test_results_of_windows_join_in_the_window_that_they_are_of():
    query = Query("app")
    rows = query.source("in", schema=SCHEMA, event_time="v").key_by("k")
    counts, sums = (rows.stage(name).window(TEN, on="v").aggregate(**{name: agg.count()}) for name in ("n", "m"))
    left, right = (each.key_by("k").window(until("window_end")) for each in (counts, sums))
    found = left.join(right, columns=["m"])
    assert list(found.schema) == ["k", "window_end", "window_start", "n", "m"]


def without_key():
    return {name: dtype for name, dtype in SCHEMA.items() if name != "k"}


@pytest.mark.parametrize(
    ("windows", "join", "message"),
    [
        ({}, {"how": "right"}, "how='right', but it is 'inner' or 'left'"),
        ({}, {"columns": ["fakt"]}, "the right side: unknown column 'fakt'; did you mean 'fact'"),
        ({}, {"columns": {"v": "t"}}, "the left side has a column 'v', too"),
        ({}, {"columns": {"window_end": "v"}}, "two columns 'window_end'"),
        ({"right_window": tumbling(20)}, {}, r"same window, but the left side has Window\(size_ms=10,"),
        ({"right_window": until("v")}, {}, "rows meet in the same window"),
        ({"left_window": session(10)}, {}, "join over sessions or windows of so many rows"),
        ({"emit": "update"}, {"how": "left"}, "how='left' with emit='update'"),
    ],
)
def test_a_join_of_windows_that_does_not_fit(windows, join, message):
    left, right = windowed(**windows)
    with pytest.raises(QueryError, match=message):
        left.join(right, **{"columns": ["fact"], **join})


def test_both_sides_of_a_join_of_windows_say_when_and_neither_where_late_rows_go():
    left, right = windowed()
    with pytest.raises(QueryError, match="one side has emit='update', the other has not"):
        left.join(windowed(emit="update")[1], columns=["fact"])
    with pytest.raises(QueryError, match=r"join\(…\) behind late_to\(…\)"):
        left.late_to("late").join(right, columns=["fact"])
