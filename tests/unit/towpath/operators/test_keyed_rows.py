"""Operators that keep rows per key: the same results however the input is cut into batches."""

from __future__ import annotations

from collections import defaultdict

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemgr.errors import CodecError
from statemgr.state import TableSpec, json_codec
from tests.unit.towpath.operators.recording import RecordingContext
from towpath.operators.aggregates import Aggregates
from towpath.operators.keyed_rows import KeyedRows
from towpath.operators.ranked import Ranked
from towpath.query import agg

TABLES = [TableSpec("t", 0, json_codec(list[list]))]
TASKS = 2

values = st.one_of(st.none(), st.integers(-5, 5))
batches = st.lists(st.lists(st.tuples(st.integers(0, 4), values), max_size=8), max_size=5)


def frame(rows, start=0):
    """Rows of key and value, numbered; the task is the key modulo 2."""
    return pl.DataFrame(
        {
            "k": [key for key, _ in rows],
            "v": [value for _, value in rows],
            "n": range(start, start + len(rows)),
            "__sched_ms": range(100 + start, 100 + start + len(rows)),
            "__partition": [key % TASKS for key, _ in rows],
        },
        schema={"k": pl.Int64, "v": pl.Int64, "n": pl.Int64, "__sched_ms": pl.Int64, "__partition": pl.Int32},
    )


def through(operator, parts, context=None):
    """What comes out of each batch."""
    context, start, found = context or RecordingContext(TABLES, TASKS), 0, []
    for part in parts:
        found.append(operator.process(frame(part, start), context))
        start += len(part)
    return found


def last_by(frames, keys):
    rows = [row for each in frames for row in each.iter_rows(named=True)]
    return {tuple(row[key] for key in keys): row for row in rows}


def aggregates():
    return KeyedRows(
        ["k"],
        Aggregates(
            {
                "rows": agg.count(),
                "positive": agg.count(where=pl.col("v") > 0),
                "total": agg.sum("v"),
                "least": agg.min("v"),
                "greatest": agg.max(pl.col("v") * 2, where=pl.col("v") < 3),
                "mean": agg.mean("v"),
            }
        ),
        "t",
    )


@given(batches)
def test_aggregates_are_those_of_all_rows(parts):
    got = last_by(through(aggregates(), parts), ["k"])
    by_key = defaultdict(list)
    for key, value in (row for part in parts for row in part):
        by_key[key].append(value)
    assert {key for (key,) in got} == set(by_key)
    for key, all_values in by_key.items():
        present = [value for value in all_values if value is not None]
        row = got[(key,)]
        assert row["rows"] == len(all_values)
        assert row["positive"] == sum(value > 0 for value in present)
        assert row["total"] == sum(present)
        assert row["least"] == min(present, default=None)
        assert row["greatest"] == max((value * 2 for value in present if value < 3), default=None)
        assert row["mean"] == (pytest.approx(sum(present) / len(present)) if present else None)


@given(batches)
def test_changes_add_up_to_what_all_keys_have_together(parts):
    operator = KeyedRows(["k"], Aggregates({"rows": agg.count(), "least": agg.min("v")}, "_before"), "t")
    frames = through(operator, parts)
    rows = [row for each in frames for row in each.iter_rows(named=True)]
    assert sum(row["rows"] - (row["rows_before"] or 0) for row in rows) == sum(map(len, parts))
    assert sum(row["rows_before"] is None for row in rows) == len({key for part in parts for key, _ in part})
    last = {}
    for row in rows:
        assert (row["rows_before"], row["least_before"]) == last.get(row["k"], (None, None))
        last[row["k"]] = (row["rows"], row["least"])


@given(batches)
def test_the_last_row_of_each_place_is_that_of_a_sort_of_all_rows(parts):
    operator = KeyedRows(["k"], Ranked(["v", "n"], 3, ["v"], [True], rank="place"), "t")
    got = last_by(through(operator, parts), ["k", "place"])
    by_key = defaultdict(list)
    for number, (key, value) in enumerate(row for part in parts for row in part):
        by_key[key].append((value, number))
    expected = {
        (key, place): (value, number)
        for key, rows in by_key.items()
        for place, (value, number) in enumerate(
            sorted(rows, key=lambda row: (row[0] is None, -(row[0] or 0), row[1]))[:3], start=1
        )
    }
    assert {at: (row["v"], row["n"]) for at, row in got.items()} == expected


@given(batches)
def test_the_latest_row_is_the_last_of_the_greatest(parts):
    operator = KeyedRows(["k"], Ranked(["v", "n"], 1, ["v"], [True], ties="last"), "t")
    got = last_by(through(operator, parts), ["k"])
    expected = {}
    for number, (key, value) in enumerate(row for part in parts for row in part):
        before = expected.get(key)
        if before is None or before[0] is None or (value is not None and value >= before[0]):
            expected[key] = (value, number)
    assert {key: (row["v"], row["n"]) for (key,), row in got.items()} == expected


def test_only_places_that_changed_go_out_and_only_keys_that_changed_are_written():
    context = RecordingContext(TABLES, TASKS)
    operator = KeyedRows(["k"], Ranked(["v"], 2, ["v"], [True], rank="place"), "t")
    (first, second, third) = through(operator, [[(0, 5), (0, 3), (1, 9)], [(0, 4), (1, 1)], [(0, 1)]], context)
    assert first.select("k", "v", "place").sort("k", "place").rows() == [(0, 5, 1), (0, 3, 2), (1, 9, 1)]
    assert second.select("k", "v", "place").sort("k", "place").rows() == [(0, 4, 2), (1, 1, 2)]
    assert third.height == 0
    state = context.tasks[0]
    state.changes()
    through(operator, [[(0, 2)]], context)
    assert context.table("t") == {b"0": [[5], [4]], b"1": [[9], [1]]}


def test_an_output_has_the_emit_times_and_the_number_of_its_keys_events_in_the_batch():
    (result,) = through(aggregates(), [[(0, 1), (1, 1), (0, 1)]])
    found = result.sort("k").select("k", "__partition", "__sched_ms", "__sched_newest_ms", "__events").rows()
    assert found == [(0, 0, 100, 102, 2), (1, 1, 101, 101, 1)]


def test_no_rows_give_no_rows_of_the_same_columns():
    (some, none) = through(aggregates(), [[(0, 1)], []])
    assert (none.height, none.schema) == (0, some.schema)


def test_a_table_of_another_query_is_told_apart():
    context = RecordingContext(TABLES, TASKS)
    through(KeyedRows(["k"], Ranked(["v", "n"], 1, ["v"], [True]), "t"), [[(0, 1)]], context)
    with pytest.raises(CodecError, match="rows of other columns than v: the query has changed"):
        through(KeyedRows(["k"], Ranked(["v"], 1, ["v"], [True]), "t"), [[(0, 1)]], context)
