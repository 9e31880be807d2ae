import polars as pl
import pytest

from tests.unit.towpath.operators.recording import RecordingContext
from towpath.operators.rows import Filter, Keep, RequireKey, Select, WithColumns

FRAME = pl.DataFrame(
    {"a": [1, 2, None], "b": [10, 20, 30], "__partition": [0, 1, 2], "__sched_ms": [7, 8, 9]},
    schema_overrides={"__partition": pl.Int32},
)


def run(operator):
    return operator.process(FRAME, RecordingContext())


def test_filter_keeps_rows_for_which_everything_is_true_and_null_is_not():
    assert run(Filter([pl.col("a") > 0, pl.col("b") > 10])).rows() == [(2, 20, 1, 8)]


@pytest.mark.parametrize("predicate", [pl.all() > 1, pl.all_horizontal(pl.all() > 1)])
def test_wildcards_in_a_filter_mean_the_users_columns(predicate):
    assert run(Filter([predicate])).get_column("b").to_list() == [20]


def test_with_columns_leaves_the_reserved_columns_alone():
    result = run(WithColumns([pl.all() * 2]))
    assert result.rows() == [(2, 20, 0, 7), (4, 40, 1, 8), (None, 60, 2, 9)]
    assert result.schema["__partition"] == pl.Int32


def test_select_keeps_the_reserved_columns_and_repeats_constants():
    result = run(Select([pl.lit(5).alias("five")]))
    assert result.rows() == [(5, 0, 7), (5, 1, 8), (5, 2, 9)]


def test_select_may_reorder_and_rename():
    assert run(Select([pl.col("b"), pl.col("a").alias("c")])).columns == ["b", "c", "__partition", "__sched_ms"]


def test_keep_drops_columns_but_not_the_reserved_ones():
    assert run(Keep(["b"])).columns == ["b", "__partition", "__sched_ms"]


def test_rows_without_a_key_become_dead_letters_of_their_task():
    context = RecordingContext()
    assert RequireKey(["b", "a"]).process(FRAME, context).get_column("b").to_list() == [10, 20]
    assert context.dead == [(2, b'{"a":null,"b":30,"sched_ms":9}', "the key is null: b, a")]
