"""Windows of event time: what is late, and what goes out at each change."""

from __future__ import annotations

import polars as pl
import pytest

from statemgr.state import TableSpec, json_codec
from tests.unit.towpath.operators.recording import RecordingContext
from towpath.operators.aggregates import Aggregates
from towpath.operators.changed import Changed
from towpath.operators.keyed_rows import kept_schema
from towpath.operators.late import LateRows
from towpath.operators.windowed_rows import WindowedRows
from towpath.operators.windows import AssignWindows, Until, Window
from towpath.query import agg

TABLES = [TableSpec("t", 0, json_codec(list[list]))]
COLUMNS = {"n": agg.count(), "most": agg.max("v")}


def frame(rows, watermark=None):
    columns = {"k": pl.Int64, "v": pl.Int64, "t": pl.Int64}
    found = pl.DataFrame(rows, schema=columns, orient="row").with_columns(
        pl.lit(7, pl.Int64).alias("__sched_ms"), pl.lit(0, pl.Int32).alias("__partition")
    )
    return found if watermark is None else found.with_columns(pl.lit(watermark, pl.Int64).alias("__watermark"))


class Windowed:
    """Assignment and aggregation, as they follow each other in a stage."""

    def __init__(self, window, *, late=None, updates=False):
        aggregates = Aggregates(COLUMNS)
        self.context = RecordingContext(TABLES, 1)
        self._assign = AssignWindows(window, "t")
        kept = kept_schema(self._assign.process(frame([]), self.context), ["k", "window_end"], aggregates)
        reduction = Changed(aggregates) if updates else aggregates
        how = {"late": LateRows(late), "updates": updates}
        self.rows = WindowedRows({"k": pl.Int64()}, window, reduction, kept, "t", **how)

    def process(self, rows, watermark=None):
        return self.rows.process(self._assign.process(frame(rows, watermark), self.context), self.context)

    def close(self, watermark):
        return self.rows.close(0, watermark, self.context, 1000)


def test_late_rows_are_counted_and_left_out():
    windows = Windowed(Window(100, 100))
    windows.process([(1, 5, 50), (1, 6, 150)], watermark=100)
    assert windows.context.late_rows == 1
    assert windows.context.emitted == []
    assert windows.close(1000).select("k", "window_start", "n").rows() == [(1, 100, 1)]


def test_late_rows_go_out_with_all_columns_and_the_window_that_they_missed():
    windows = Windowed(Window(100, 50), late="late")
    windows.process([(1, 5, 50), (2, 6, 75)], watermark=100)
    ((topic, late),) = windows.context.emitted
    assert topic == "late"
    assert sorted(late.columns) == ["__partition", "__sched_ms", "k", "t", "v", "window_end", "window_start"]
    assert late.select("k", "v", "t", "window_start", "window_end").rows() == [(1, 5, 50, 0, 100), (2, 6, 75, 0, 100)]
    assert windows.context.late_rows == 2
    assert windows.close(1000).select("k", "window_start", "n").rows() == [(1, 50, 1), (2, 50, 1)]


def test_rows_until_a_moment_are_late_when_it_has_passed():
    windows = Windowed(Until("t"), late="late")
    windows.process([(1, 5, 50), (1, 6, 150)], watermark=50)
    ((_, late),) = windows.context.emitted
    assert late.select("k", "v", "window_end").rows() == [(1, 5, 50)]


def test_nothing_goes_out_where_nothing_is_late():
    windows = Windowed(Window(100, 100), late="late")
    windows.process([(1, 5, 50)], watermark=99)
    windows.process([(1, 5, 60)])
    assert (windows.context.emitted, windows.context.late_rows) == ([], 0)


def test_with_updates_a_row_goes_out_for_each_key_and_window_that_changed():
    windows = Windowed(Window(100, 100), updates=True)
    found = windows.process([(1, 5, 50), (2, 6, 60), (1, 4, 150), (1, 7, 51)])
    assert found.columns == [
        "k", "window_start", "window_end", "n", "most", "__partition", "__sched_ms", "__sched_newest_ms", "__events",
    ]  # fmt: skip
    assert sorted(found.select("k", "window_start", "n", "most").rows()) == [(1, 0, 2, 7), (1, 100, 1, 4), (2, 0, 1, 6)]
    assert windows.process([(2, 1, 61)]).select("k", "window_end", "n", "most").rows() == [(2, 100, 2, 6)]


def test_with_updates_state_goes_when_a_window_closes_and_nothing_comes_out():
    windows = Windowed(Window(100, 100), updates=True)
    windows.process([(1, 5, 50), (1, 6, 150)])
    assert windows.close(100).height == 0
    assert windows.context.table("t").keys() == {b"[1,200]"}
    assert windows.rows.timers.of(0, windows.context).earliest == 200


@pytest.mark.parametrize("column", ["n", "most"])
def test_what_is_as_before_does_not_go_out(column):
    changed = Changed(Aggregates({column: COLUMNS[column]}))
    rows = pl.DataFrame({"__group": [0, 1], "v": [5, None]}, schema={"__group": pl.UInt32, "v": pl.Int64})
    kept, first = changed.step(changed.rows(rows).clear(), changed.rows(rows))
    assert first.height == 2
    _, again = changed.step(kept, changed.rows(rows))
    assert again.height == (2 if column == "n" else 0)
