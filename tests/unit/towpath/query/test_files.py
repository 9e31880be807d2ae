"""How a sink of files is planned, and what is said of wrong ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from towpath.errors import SettingsError
from towpath.query import ColumnTypeError, GraphError, Query, QueryError, UnknownColumnError, hopping, tumbling
from towpath.query.plan import Edge
from towpath.stage.outside import check_outside

SCHEMA = {"k": pl.String, "v": pl.Float64, "t": pl.Int64, "file": pl.Int64}
MINUTE = {"window": tumbling(60_000), "on": "t"}


def files(directory: str | Path = "/data/out", schema: dict[str, Any] | None = None, **how: Any) -> Query:
    query = Query("app", partitions=2)
    query.source("in", schema=schema or SCHEMA, event_time="t").sink_files("out", directory, **how)
    return query


def test_files_are_written_where_rows_are_and_directories_marked_by_a_stage_of_their_own():
    writes, marks = files(partition_by="k", complete_after_ms=5, **MINUTE).plan().stages
    assert (writes.name, marks.name) == ("source", "source-complete")
    assert [item.name for item in writes.operators] == ["require_event_time", "require_key", "write_files"]
    assert [table.name for table in writes.tables] == ["files", "file_rows"]
    assert [(item.topic, item.edge, item.key, item.inner) for item in writes.outputs] == [
        ("out", Edge.HASH, ("k",), False),
        ("app.source-source-complete", Edge.HASH, ("k",), True),
    ]
    assert list(marks.inputs[0].schema) == ["rows", "k", "complete_at"]
    assert [item.topic for item in marks.outputs] == ["out-complete"]
    assert writes.event_time
    assert marks.event_time


def test_without_windows_there_is_only_one_stage():
    (stage,) = files().plan().stages
    assert [item.name for item in stage.operators] == ["write_files", "select"]
    assert [(item.topic, item.edge) for item in stage.outputs] == [("out", Edge.RANDOM)]
    assert not stage.event_time


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        ({"directory": "out"}, QueryError, "'out' is relative.*name it from the root, for example '/data/out'"),
        ({"partition_by": "kk"}, UnknownColumnError, "partition_by: unknown column 'kk'; did you mean 'k'"),
        ({"partition_by": "v"}, ColumnTypeError, "column 'v' is Float64"),
        ({"partition_by": ("k", "k")}, QueryError, "another column 'k' already"),
        ({"partition_by": "file"}, QueryError, "another column 'file' already"),
        ({"partition_by": "t", "schema": {"t": pl.Int64}}, QueryError, "no column is left for the files"),
        ({"partition_by": "k", "window": tumbling(5)}, QueryError, "window=… takes on='…'"),
        ({"partition_by": "k", "on": "t"}, QueryError, "name window=…, too"),
        ({"complete_after_ms": 1}, QueryError, "name window=…, too"),
        ({"partition_by": "k", "on": "t", "window": hopping(10, 5)}, QueryError, r"window is tumbling\(…\)"),
        ({"partition_by": "k", "on": "k", "window": tumbling(5)}, ColumnTypeError, "'k' is String, and event time"),
        ({"partition_by": "k", "on": "x", "window": tumbling(5)}, UnknownColumnError, "unknown column 'x'"),
        (MINUTE, QueryError, "partition_by has to name the columns"),
        ({"partition_by": "k", "complete_after_ms": -1, **MINUTE}, QueryError, "complete_after_ms=-1, but it is at"),
        ({"roll_rows": 0}, QueryError, "roll_rows=0, but it is at least 1"),
        ({"roll_ms": 0}, QueryError, "roll_ms=0, but it is at least 1"),
    ],
)
def test_what_is_wrong_is_said_when_it_is_written(how, error, text):
    with pytest.raises(error, match=text):
        files(**how)


def test_windows_need_event_time():
    rows = Query("app").source("in", schema=SCHEMA)
    with pytest.raises(QueryError, match="source 'in' tells no event time"):
        rows.sink_files("out", "/data/out", partition_by="k", **MINUTE)


def test_directories_are_not_named_by_bytes():
    rows = Query("app").source("in", schema=SCHEMA).with_columns(b=pl.col("k").cast(pl.Binary))
    with pytest.raises(ColumnTypeError, match="'b' is Binary; cast it to text"):
        rows.sink_files("out", "/data/out", partition_by="b")


def test_a_branch_begins_with_a_stage_of_its_own():
    query = Query("app", partitions=2)
    rows = query.source("in", schema=SCHEMA)
    rows.sink("plain")
    rows.sink_files("out", "/data/out")
    with pytest.raises(GraphError, match="branches before 'write_files', which keeps state"):
        query.plan()


def test_every_stage_that_needs_the_directory_looks_for_it_before_it_begins(tmp_path):
    plan = files(tmp_path / "there" / "out", partition_by="k", **MINUTE).plan()
    for stage in plan.stages:
        with pytest.raises(SettingsError, match=f"there is no directory {tmp_path / 'there'}"):
            check_outside(stage)
    (tmp_path / "there").mkdir()
    for stage in plan.stages:
        check_outside(stage)
    assert list((tmp_path / "there" / "out").iterdir()) == []
