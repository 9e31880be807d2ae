"""A column of text goes over to one consumer, and is freed if nobody takes it."""

from __future__ import annotations

import numpy as np
import polars as pl
import psutil
import pyarrow as pa
import pytest

from towpath_native import WHY_NOT
from towpath_native.cells import Cells
from towpath_native.json_columns import Field, JsonColumns, Kind
from towpath_native.text import TextColumn

pytestmark = pytest.mark.skipif(WHY_NOT is not None, reason=f"no columns: {WHY_NOT}")

RECORD = b'{"a":"' + b"x" * 1000 + b'"}'
ROUNDS = 3000
ROUNDS_MOST_BYTES = 60 * 2**20
"""A fifth of what the rounds would take if each left its 100 kB."""


def column(records: list[bytes]) -> TextColumn:
    ((values, _),), _ = JsonColumns({"a": Field(Kind.TEXT)}).decode(Cells.of(records))
    assert isinstance(values, TextColumn)
    return values


@pytest.mark.parametrize("take", [pl.Series, pa.array], ids=["polars", "pyarrow"])
@pytest.mark.parametrize("texts", [[], [None], [""], ["a", None, "", "b" * 100, None] * 7], ids=len)
def test_what_is_taken_is_what_was_written(take, texts):
    records = [b"{}" if text is None else b'{"a":"%s"}' % text.encode() for text in texts]
    taken = take(column(records))
    assert taken.null_count == texts.count(None) if take is pa.array else taken.null_count() == texts.count(None)
    assert taken.to_pylist() == texts if take is pa.array else taken.to_list() == texts


@pytest.mark.slow
@pytest.mark.parametrize("take", [lambda column: None, pl.Series, pa.array], ids=["nobody", "polars", "pyarrow"])
def test_no_column_stays_in_memory(take):
    decoder = JsonColumns({"a": Field(Kind.TEXT)})
    records = Cells.of([RECORD] * 100)
    before = psutil.Process().memory_info().rss
    for _ in range(ROUNDS):
        ((values, _),), _ = decoder.decode(records)
        take(values)
    assert psutil.Process().memory_info().rss - before < ROUNDS_MOST_BYTES


def test_a_column_that_was_never_finished_is_freed():
    for _ in range(2000):
        TextColumn(1000, 100_000)


def test_what_was_taken_outlives_the_column():
    series = [pl.Series(column([RECORD] * 10)) for _ in range(20)]
    assert all(each.to_list() == ["x" * 1000] * 10 for each in series)


def test_a_column_is_handed_over_once():
    text = column([RECORD])
    pl.Series(text)
    with pytest.raises(ValueError, match="handed over once"):
        text.__arrow_c_array__()


def test_an_unfinished_column_is_not_handed_over():
    with pytest.raises(ValueError, match="after it is finished"):
        TextColumn(1, 1).__arrow_c_array__()


def test_a_column_without_rows_can_be_finished():
    text = TextColumn(0, 0)
    text.text.begin[0] = 0
    assert pl.Series(text.finish(np.empty(0, np.uint8))).to_list() == []
