"""Files appear whole or not at all, under names that other readers understand."""

from __future__ import annotations

import os
from pathlib import Path

import polars as pl
import pytest

from tests.harness.files import everything_in, files_in
from towpath.errors import SettingsError, StageStoppedError
from towpath.operators.parquet_files import MARKER, NO_TEXT, ParquetDirectory, directory_name

ROWS = pl.DataFrame({"a": [1, 2], "b": ["x", None]})


class KilledError(BaseException):
    """The process is dead."""


def never() -> pl.DataFrame:
    raise AssertionError("the rows are not needed")


@pytest.fixture
def directory(tmp_path: Path) -> ParquetDirectory:
    return ParquetDirectory(tmp_path / "out", ["day", "n"])


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ("2015-07-15", "c=2015-07-15"),
        ("00:01", "c=00%3A01"),
        ("a/b", "c=a%2Fb"),
        ("../..", "c=..%2F.."),
        ("100%=x", "c=100%25%3Dx"),
        ("\n", "c=%0A"),
        ("Zürich 1", "c=Zürich 1"),
        ("", f"c={NO_TEXT}"),
        (-5, "c=-5"),
        (True, "c=true"),
        (False, "c=false"),
    ],
)
def test_names_of_directories(value, name):
    assert directory_name("c", value) == name


def test_a_file_is_there_with_its_rows_and_nothing_else(directory):
    place = directory.place(["d", 1], "part.parquet")
    directory.write(place, lambda: ROWS)
    assert everything_in(directory.root) == ["day=d/n=1/part.parquet"]
    assert pl.read_parquet(directory.root / place, hive_partitioning=False).equals(ROWS)


def test_a_file_that_is_there_stays_as_it_is(directory):
    directory.write("part.parquet", lambda: ROWS)
    directory.write("part.parquet", never)
    assert files_in(directory.root) == ["part.parquet"]


def test_readers_find_the_columns_of_directories(directory):
    directory.write(directory.place(["a/b: c%", 7], "part.parquet"), lambda: ROWS)
    found = pl.read_parquet(directory.root / "**/*.parquet", hive_partitioning=True)
    assert found.to_dicts() == [{**row, "day": "a/b: c%", "n": 7} for row in ROWS.to_dicts()]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_of_a_file_whose_writer_was_killed_nothing_is_seen_and_the_next_one_clears_up(directory, monkeypatch, call):
    def killed(*_):
        raise KilledError

    directory.write("other.parquet", lambda: ROWS)
    with monkeypatch.context() as patch, pytest.raises(KilledError):
        patch.setattr(os, call, killed)
        directory.write("part.parquet", lambda: ROWS)
    assert files_in(directory.root) == ["other.parquet"]
    assert len(everything_in(directory.root)) == 2
    directory.write("part.parquet", lambda: ROWS)
    assert everything_in(directory.root) == ["other.parquet", "part.parquet"]


def test_two_that_write_the_same_file_at_once_leave_one(directory, monkeypatch):
    """The second writes while the first is about to rename, and clears away what the first has written."""
    rename = os.replace

    def beside(*names):
        monkeypatch.setattr(os, "replace", rename)
        directory.write("part.parquet", lambda: ROWS)
        rename(*names)

    monkeypatch.setattr(os, "replace", beside)
    directory.write("part.parquet", lambda: ROWS)
    assert everything_in(directory.root) == ["part.parquet"]
    assert pl.read_parquet(directory.root / "part.parquet").equals(ROWS)


def test_a_marker_is_put_there_once(directory):
    for _ in range(2):
        directory.mark(["d", 1])
    assert everything_in(directory.root) == [f"day=d/n=1/{MARKER}"]


def test_what_can_not_be_written_stops_with_its_name(directory):
    directory.root.write_text("in the way")
    with pytest.raises(StageStoppedError, match=r"out/part.parquet can.t be written: File exists; nothing is lost"):
        directory.write("part.parquet", lambda: ROWS)


def test_the_directory_that_it_lies_in_is_not_made(directory):
    directory.root.parent.rmdir()
    with pytest.raises(SettingsError, match=r"there is no directory .*; make it, or mount what belongs there"):
        directory.check()
    with pytest.raises(StageStoppedError, match="No such file or directory"):
        directory.mark(["d", 1])


def test_a_directory_that_can_not_be_had_is_refused_at_the_start(directory):
    directory.root.write_text("in the way")
    with pytest.raises(SettingsError, match=r"files can't be written to .*/out: File exists; let this user"):
        directory.check()


def test_the_directory_is_made_and_looking_leaves_nothing_there(directory):
    directory.check()
    directory.check()
    assert directory.root.is_dir()
    assert everything_in(directory.root) == []
