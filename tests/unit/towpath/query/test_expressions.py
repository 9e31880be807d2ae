"""Expressions in Polars, in narwhals and in two forms are the same to the services."""

from __future__ import annotations

import narwhals as nw
import polars as pl
import pytest

from towpath.query import BatchDependentError, Query, QueryError, agg, expr
from towpath.query.expressions import expression, polars_form
from towpath.testing import StageDriver

PAIRS = [
    (nw.col("a"), pl.col("a")),
    (nw.col("a").alias("b"), pl.col("a").alias("b")),
    (nw.col("a") % 7, pl.col("a") % 7),
    (nw.col("a") // 7, pl.col("a") // 7),
    ((nw.col("a") > 1) & (nw.col("b") == "x"), (pl.col("a") > 1) & (pl.col("b") == "x")),
    (nw.col("a").is_between(1, 5), pl.col("a").is_between(1, 5)),
    (nw.col("a").is_in([1, 2]), pl.col("a").is_in([1, 2])),
    (nw.col("a").is_null(), pl.col("a").is_null()),
    (nw.col("a").fill_null(0), pl.col("a").fill_null(0)),
    (nw.col("s").struct.field("f"), pl.col("s").struct.field("f")),
    (nw.lit("x"), pl.lit("x")),
    (nw.lit(None, nw.String), pl.lit(None, pl.String)),
]
"""Narwhals, and what a person would write in Polars: what services run is the same, not merely equal in effect."""


@pytest.mark.parametrize(("written", "polars"), PAIRS)
def test_contract_narwhals_gives_the_polars_expression_that_it_would_run(written: nw.Expr, polars: pl.Expr) -> None:
    assert polars_form(written).meta.eq(polars)


def test_narwhals_conditions_run_as_polars_ones() -> None:
    written = nw.when(nw.col("a") < 3).then(0).otherwise(nw.when(nw.col("a") < 5).then(1).otherwise(2))
    frame = pl.DataFrame({"a": [1, 3, 9]})
    assert frame.select(band=polars_form(written))["band"].to_list() == [0, 1, 2]


def test_names_come_from_the_polars_form() -> None:
    assert expression("a").name == "a"
    assert expression(nw.col("a").alias("b")).name == "b"
    assert expr(polars=pl.col("a").str.to_uppercase(), spark="UPPER(a)").name == "a"
    assert expr(polars=pl.col("a"), spark="a").alias("c").name == "c"


def test_a_column_is_told_from_a_calculation() -> None:
    assert expression(pl.col("a").alias("b")).column == "a"
    assert expression(nw.col("a")).column == "a"
    assert expression(pl.col("a") + 1).column is None
    assert expression(pl.lit(1)).column is None


def test_what_is_no_expression_is_named() -> None:
    with pytest.raises(QueryError, match=r"3 is int, not an expression: write it with polars, narwhals or towpath"):
        expression(3)  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="not a polars expression"):
        expr(polars="a", spark="a")  # type: ignore[arg-type]
    with pytest.raises(QueryError, match="neither a text in Spark SQL nor a function"):
        expr(polars=pl.col("a"), spark=7)  # type: ignore[arg-type]


def written_in(kind: str) -> Query:
    """The same query in each form."""
    forms = {
        "polars": (pl.col("a") > 1, pl.col("a") * 2),
        "narwhals": (nw.col("a") > 1, nw.col("a") * 2),
        "both": (expr(polars=pl.col("a") > 1, spark="a > 1"), expr(polars=pl.col("a") * 2, spark="a * 2")),
    }
    kept, twice = forms[kind]
    query = Query("q")
    rows = query.source("in", schema={"k": pl.String, "a": pl.Int64})
    counted = rows.filter(kept).with_columns(b=twice).key_by("k").stage("sum")
    counted.aggregate(n=agg.count(where=kept), total=agg.sum("b"), most=agg.max(twice, where=kept)).sink("out", key="k")
    return query


@pytest.mark.parametrize("kind", ["polars", "narwhals", "both"])
def test_services_give_the_same_for_each_form(kind: str) -> None:
    driver = StageDriver(written_in(kind))
    driver.pipe("in", [{"k": "x", "a": 1}, {"k": "x", "a": 2}, {"k": "x", "a": 3}])
    driver.run_until_idle()
    row = driver.rows("out")[-1]
    assert (row["n"], row["total"], row["most"]) == (2, 10, 6)
    driver.close()


def test_only_columns_that_narwhals_expressions_read_are_decoded() -> None:
    query = Query("q")
    rows = query.source("in", schema={"a": pl.Int64, "b": pl.Int64, "c": pl.Int64})
    rows.filter(nw.col("b") > 0).select("a").sink("out")
    assert set(query.plan().stages[0].inputs[0].schema) == {"a", "b"}


def test_narwhals_expressions_over_other_rows_are_refused_too() -> None:
    rows = Query("q").source("in", schema={"a": pl.Int64})
    with pytest.raises(BatchDependentError):
        rows.with_columns(b=nw.col("a").sum())
