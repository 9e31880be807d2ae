"""The table of reported faults names tests that exist, and what it says to be absent is absent."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest

from statemgr.state import TableSpec
from statemgr.table import ValueTable
from towpath import faust
from towpath.faust import UnsupportedFaustFeatureError

ROOT = Path(__file__).parents[2]
TABLE = ROOT / "docs" / "reported-faults.md"
REFERENCE = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
SECTIONS = {"A": 11, "B": 9, "C": 10, "D": 9, "E": 6, "G": 3, "J": 3}


def test_every_row_names_a_test_and_every_test_exists() -> None:
    rows = [
        line for line in TABLE.read_text().splitlines() if line.startswith("| ") and not line.startswith("| report")
    ]
    assert [row for row in rows if not REFERENCE.search(row)] == []
    for file, name in REFERENCE.findall("\n".join(rows)):
        assert f"def {name}(" in (ROOT / file).read_text(), f"{file}::{name}"


def test_each_section_has_all_its_rows() -> None:
    parts = re.split(r"^## (\w)\. .*$", TABLE.read_text(), flags=re.M)
    counts = {letter: text.count("\n| ") - 1 for letter, text in zip(parts[1::2], parts[2::2], strict=True)}
    assert counts == SECTIONS


def test_no_table_has_keys_that_expire() -> None:
    words = {field.name for field in dataclasses.fields(TableSpec)} | set(dir(ValueTable))
    words |= {
        name for method in (ValueTable.put_many, faust.App.Table) for name in inspect.signature(method).parameters
    }
    assert {word for word in words if re.search(r"ttl|expir", word)} == set()
    with pytest.raises((UnsupportedFaustFeatureError, TypeError)):
        faust.App("app").Table("counts", expires=10)


def test_the_spark_jobs_keep_no_state() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "loadgen" / "src").rglob("*.py"))
    assert "foreachBatch" in sources
    assert not re.search(r"withWatermark|dropDuplicates|flatMapGroupsWithState|applyInPandasWithState", sources)
