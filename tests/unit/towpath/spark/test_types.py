from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

from towpath.spark.python_code import BatchesFunction, GroupFunction, plain
from towpath.spark.types import ddl, quoted, spark_type


@pytest.mark.parametrize(
    ("polars", "spark"),
    [
        (pl.Int64, "bigint"),
        (pl.Int64(), "bigint"),
        (pl.UInt32(), "bigint"),
        (pl.UInt64(), "decimal(20,0)"),
        (pl.Decimal(23, 3), "decimal(23,3)"),
        (pl.List(pl.String), "array<string>"),
        (pl.Struct({"a b": pl.Int8(), "c": pl.List(pl.Float64)}), "struct<`a b`:tinyint,`c`:array<double>>"),
        (pl.Datetime("ms"), "timestamp_ntz"),
        (pl.Datetime("us", "UTC"), "timestamp"),
    ],
)
def test_types_have_a_counterpart(polars: Any, spark: str) -> None:
    assert spark_type(polars) == spark


def test_a_type_without_counterpart_is_named() -> None:
    with pytest.raises(ValueError, match="Duration"):
        spark_type(pl.Duration("ms"))


def test_names_are_quoted_and_reserved_columns_left_out() -> None:
    assert ddl({"a b": pl.Int64(), "__partition": pl.Int32()}) == "`a b` bigint"
    assert quoted("a`b") == "`a``b`"


def test_frames_become_plain_arrow_data() -> None:
    frame = pl.DataFrame(
        {"s": ["x"], "u": [1], "l": [["a"]], "d": [{"f": "y"}]},
        schema={"s": pl.String, "u": pl.UInt16, "l": pl.List(pl.String), "d": pl.Struct({"f": pl.String})},
    )
    types = dict(zip(plain(frame).schema.names, plain(frame).schema.types, strict=True))
    assert types["s"] == pa.string()
    assert types["u"] == pa.int32()
    assert types["l"].value_type == pa.string()
    assert types["d"].field(0).type == pa.string()


def test_a_function_on_batches_finds_a_partition_and_gives_the_columns_that_were_agreed() -> None:
    seen = []

    def function(frame: pl.DataFrame) -> pl.DataFrame:
        seen.append(frame.columns)
        return frame.with_columns(b=pl.col("a") + 1)

    batch = pa.record_batch({"a": pa.array([1, 2], pa.int64())})
    (result,) = BatchesFunction(function, ("b",))(iter([batch]))
    assert seen == [["a", "__partition"]]
    assert result.to_pydict() == {"b": [2, 3]}


def test_a_function_on_rows_has_them_in_order_with_one_state() -> None:
    def running(row: dict[str, Any], state: Any) -> list[dict[str, Any]]:
        state.set(state.get(0) + row["v"])
        return [{"sum": state.get()}]

    order = [{"ms": 2, "a": 0, "b": 0}, {"ms": 1, "a": 0, "b": 5}, {"ms": 1, "a": 0, "b": 4}]
    table = pa.table({"v": [100, 10, 1], "__order": order})
    result = GroupFunction(running, {"sum": pl.Int64()}, "__order")(table)
    assert result.column("sum").to_pylist() == [1, 11, 111]
    assert [each["b"] for each in result.column("__order").to_pylist()] == [4, 5, 0]
