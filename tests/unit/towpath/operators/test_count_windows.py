"""Windows of so many rows: the same results however the input is cut into batches."""

from __future__ import annotations

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from statemgr.state import TableSpec, json_codec
from tests.unit.towpath.operators.recording import RecordingContext
from towpath.operators.aggregates import Aggregates
from towpath.operators.count_windows import CountWindows
from towpath.operators.keyed_rows import KeyedRows
from towpath.query import agg

TABLES = [TableSpec("t", 0, json_codec(list[list]))]
COLUMNS = {"n": agg.count(), "total": agg.sum("v"), "least": agg.min("v")}


def frame(rows):
    columns = {"k": pl.Int64, "v": pl.Int64, "__partition": pl.Int32}
    return pl.DataFrame([(key, value, 0) for key, value in rows], schema=columns, orient="row")


def through(batches, every, panes):
    context = RecordingContext(TABLES, 1)
    operator = KeyedRows(["k"], CountWindows(every, panes, Aggregates(COLUMNS)), "t")
    found = {}
    for batch in batches:
        out = operator.process(frame(batch), context)
        assert out.columns == ["k", "n", "total", "least", "__partition", "__events"]
        for key, *results in out.select("k", "n", "total", "least").rows():
            found.setdefault(key, []).append(tuple(results))
    return found, context


batches = st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(-5, 5)), max_size=12), max_size=6)


@settings(deadline=None)
@given(batches, st.integers(1, 4), st.integers(1, 3))
def test_a_result_comes_after_every_so_many_rows_over_the_last_so_many(parts, every, panes):
    found, _ = through(parts, every, panes)
    values = {}
    for key, value in (row for part in parts for row in part):
        values.setdefault(key, []).append(value)
    expected = {}
    size = every * panes
    for key, each in values.items():
        windows = [each[end - size : end] for end in range(size, len(each) + 1, every)]
        if windows:
            expected[key] = [(size, sum(window), min(window)) for window in windows]
    assert found == expected


@settings(deadline=None)
@given(batches, st.integers(1, 4), st.integers(1, 3))
def test_no_more_is_kept_than_later_windows_need(parts, every, panes):
    _, context = through(parts, every, panes)
    assert all(1 <= len(kept) <= panes for kept in context.table("t").values())
    assert all(pane[0] == every for kept in context.table("t").values() for pane in kept[:-1])
