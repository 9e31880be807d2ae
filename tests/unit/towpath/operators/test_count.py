import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemgr.state import TableSpec, json_codec
from tests.unit.towpath.operators.recording import RecordingContext
from towpath.operators.count import KeyedCount

TABLES = [TableSpec("count", 0, json_codec(int))]


def rows(*keys, start=0):
    """Rows with emit times 100, 101, …; the task is the key modulo 4."""
    return pl.DataFrame(
        {
            "k": keys,
            "__sched_ms": range(100 + start, 100 + start + len(keys)),
            "__partition": [key % 4 for key in keys],
        },
        schema_overrides={"k": pl.Int64, "__partition": pl.Int32},
    )


def test_one_row_per_key_and_batch_with_the_total():
    context, operator = RecordingContext(TABLES), KeyedCount(["k"], "count", "count")
    operator.process(rows(1, 1, 2), context)
    result = operator.process(rows(1, 2, 1, start=3), context).sort("k")
    assert result.select("k", "count").rows() == [(1, 4), (2, 2)]
    assert context.table("count") == {b"1": 4, b"2": 2}


def test_oldest_and_newest_emit_time_and_the_number_of_events_travel_along():
    result = KeyedCount(["k"], "count", "count").process(rows(1, 2, 1), RecordingContext(TABLES)).sort("k")
    assert result.select("__sched_ms", "__sched_newest_ms", "__events").rows() == [(100, 102, 2), (101, 101, 1)]


def test_events_and_newest_time_of_a_count_before_are_kept():
    frame = rows(1, 1).with_columns(__events=pl.lit(5), __sched_newest_ms=pl.Series([900, None], dtype=pl.Int64))
    result = KeyedCount(["k"], "n", "count").process(frame, RecordingContext(TABLES))
    assert result.select("n", "__sched_newest_ms", "__events").rows() == [(2, 900, 10)]


def test_each_gives_the_running_count_of_every_row_in_input_order():
    context, operator = RecordingContext(TABLES), KeyedCount(["k"], "count", "count", each=True)
    operator.process(rows(1, 2), context)
    result = operator.process(rows(1, 2, 1, 3), context)
    assert result.select("k", "count").rows() == [(1, 2), (2, 2), (1, 3), (3, 1)]
    assert result.get_column("__sched_ms").to_list() == [100, 101, 102, 103]
    assert result.get_column("__sched_newest_ms").to_list() == [100, 101, 102, 103]
    assert result.get_column("__events").to_list() == [1, 1, 1, 1]


def test_both_modes_give_the_same_columns():
    results = [
        KeyedCount(["k"], "count", "count", each=each).process(rows(1), RecordingContext(TABLES))
        for each in (False, True)
    ]
    assert results[0].schema == results[1].schema


def test_without_emit_time_no_time_is_made_up():
    result = KeyedCount(["k"], "count", "count").process(rows(1).drop("__sched_ms"), RecordingContext(TABLES))
    assert result.columns == ["k", "count", "__partition", "__events"]


def test_equal_keys_of_two_tasks_are_counted_apart():
    frame = rows(1, 1).with_columns(pl.Series("__partition", [0, 1], dtype=pl.Int32))
    context = RecordingContext(TABLES)
    assert KeyedCount(["k"], "count", "count").process(frame, context).get_column("count").to_list() == [1, 1]


def test_a_key_of_several_columns():
    frame = rows(1, 1, 1).with_columns(s=pl.Series(["a", "b", "a"]))
    context = RecordingContext(TABLES)
    KeyedCount(["k", "s"], "count", "count").process(frame, context)
    assert context.table("count") == {b'[1,"a"]': 2, b'[1,"b"]': 1}


@given(st.lists(st.lists(st.integers(0, 6), max_size=12), max_size=4), st.booleans())
def test_the_last_count_of_a_key_is_the_number_of_its_rows_however_they_are_batched(batches, each):
    context, operator = RecordingContext(TABLES), KeyedCount(["k"], "count", "count", each=each)
    last = {}
    for batch in batches:
        last |= dict(operator.process(rows(*batch), context).select("k", "count").rows())
    flat = [key for batch in batches for key in batch]
    assert last == {key: flat.count(key) for key in set(flat)}


@pytest.mark.parametrize("each", [False, True])
def test_no_rows_give_no_rows(each):
    result = KeyedCount(["k"], "count", "count", each=each).process(rows(), RecordingContext(TABLES))
    assert result.height == 0
    assert result.schema["count"] == pl.Int64
