from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemgr.errors import ProducerLostError
from tests.unit.towpath.stage.plans import SINK, pass_stage
from towpath.operators.rows import Filter, Keep, MapBatches, RequireKey, Select, WithColumns
from towpath.query.plan import PARTITION, Operator, OperatorContext, OperatorPlan, StagePlan
from towpath.stage.chain import PASS, OperatorChain
from towpath.stage.metrics import StageMetrics


class Letters:
    """Where the chain's dead letters go: what it needs of them, and what came."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, Any, str]] = []

    def row(self, partition: int, value: bytes, reason: str) -> None:
        self.rows.append((partition, json.loads(value), reason))


def chain_of(*operators: Operator) -> tuple[OperatorChain, Letters]:
    letters = Letters()
    plan = pass_stage(operators=[OperatorPlan(type(item).__name__, lambda item=item: item) for item in operators])
    return OperatorChain(plan, {}, letters, StageMetrics("pass", "pass-0")), letters


def frame(values: list[Any]) -> pl.DataFrame:
    return pl.DataFrame({"v": values}).with_columns(pl.lit(3, pl.Int32).alias(PARTITION))


def outcome(chain: OperatorChain, given: pl.DataFrame) -> list[Any]:
    ((topic, rows),) = chain.run(given)
    assert topic == SINK
    return rows.get_column("v").to_list()


def to_int(column: pl.Expr) -> pl.Expr:
    return column.cast(pl.Int64)


def raising(bad: set[int], calls: list[int] | None = None) -> MapBatches:
    def function(rows: pl.DataFrame) -> pl.DataFrame:
        if calls is not None:
            calls.append(rows.height)
        found = bad & set(rows.get_column("v").to_list())
        if found:
            raise ValueError(f"no such thing as {min(found)}")
        return rows

    return MapBatches(function)


@pytest.mark.parametrize(
    "operator",
    [
        pytest.param(WithColumns([to_int(pl.col("v"))]), id="with-columns"),
        pytest.param(Select([to_int(pl.col("v"))]), id="select"),
        pytest.param(Filter([to_int(pl.col("v")) >= 0]), id="filter"),
        pytest.param(MapBatches(lambda rows: rows.with_columns(to_int(pl.col("v")))), id="map-batches"),
    ],
)
def test_a_row_that_can_not_be_processed_is_set_aside_and_the_others_go_on(operator: Operator) -> None:
    chain, letters = chain_of(operator)
    assert [int(value) for value in outcome(chain, frame(["1", "x", "3"]))] == [1, 3]
    ((partition, value, reason),) = letters.rows
    assert (partition, value) == (3, {"v": "x"})
    assert reason.startswith(f"{type(operator).__name__}: InvalidOperationError: conversion from")


@given(values=st.lists(st.integers(0, 9), max_size=40), bad=st.sets(st.integers(0, 9)))
def test_exactly_the_bad_rows_are_set_aside_and_the_order_is_kept(values: list[int], bad: set[int]) -> None:
    chain, letters = chain_of(raising(bad))
    given = frame(values).with_columns(pl.col("v").cast(pl.Int64))
    assert outcome(chain, given) == [value for value in values if value not in bad]
    assert [value["v"] for _, value, _ in letters.rows] == [value for value in values if value in bad]


def test_one_bad_row_in_a_batch_costs_a_logarithm_of_calls() -> None:
    calls: list[int] = []
    chain, letters = chain_of(raising({700}, calls))
    assert len(outcome(chain, frame(list(range(1024))))) == 1023
    assert len(letters.rows) == 1
    assert len(calls) <= 2 + 2 * 10


def test_without_errors_an_operator_is_called_once_a_batch() -> None:
    calls: list[int] = []
    chain, _ = chain_of(raising(set(), calls))
    outcome(chain, frame([1, 2, 3]))
    assert calls == [3]


def test_when_every_row_is_bad_the_next_operator_still_gets_the_right_columns() -> None:
    chain, letters = chain_of(WithColumns([to_int(pl.col("v"))]), Filter([pl.col("v") > 0]))
    ((_, rows),) = chain.run(frame(["x", "y"]))
    assert rows.schema == {"v": pl.Int64, PARTITION: pl.Int32}
    assert rows.height == 0
    assert len(letters.rows) == 2


@pytest.mark.parametrize("operator", [WithColumns([pl.col("gone")]), Keep(["gone"])])
def test_an_operator_that_fails_without_any_row_is_not_blamed_on_the_rows(operator: Operator) -> None:
    chain, letters = chain_of(operator)
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        chain.run(frame([1, 2]))
    assert letters.rows == []


def test_a_panic_of_polars_is_an_error_of_the_row() -> None:
    def function(rows: pl.DataFrame) -> pl.DataFrame:
        if rows.height:
            raise pl.exceptions.PanicException("index out of bounds")
        return rows

    chain, letters = chain_of(MapBatches(function))
    assert outcome(chain, frame([1])) == []
    assert letters.rows[0][2] == "MapBatches: PanicException: index out of bounds"


def test_a_batch_function_that_loses_a_reserved_column_is_an_error_of_the_query() -> None:
    chain, letters = chain_of(MapBatches(lambda rows: rows.select("v")), RequireKey(["v"]))
    with pytest.raises(pl.exceptions.PolarsError):
        chain.run(frame([1, None]))
    assert letters.rows == []


class Raising:
    """An operator that is none of the stateless ones."""

    def __init__(self, error: Callable[[], Exception]) -> None:
        self._error = error

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        raise self._error()


def test_an_operator_with_state_is_never_run_twice_on_a_row() -> None:
    chain, letters = chain_of(Raising(lambda: ValueError("half done")))
    with pytest.raises(ValueError, match="half done"):
        chain.run(frame([1, 2]))
    assert letters.rows == []


def test_a_lost_producer_is_no_error_of_a_row() -> None:
    def lost(*_: object) -> None:
        raise ProducerLostError("fenced")

    chain, letters = chain_of(RequireKey(["v"]))
    letters.row = lost  # type: ignore[method-assign]
    with pytest.raises(ProducerLostError):
        chain.run(frame([None, None]))


def test_bytes_of_a_bad_row_are_kept_as_they_are_where_json_has_no_form_for_them() -> None:
    def function(rows: pl.DataFrame) -> pl.DataFrame:
        if rows.height:
            raise ValueError("no")
        return rows

    chain, letters = chain_of(MapBatches(function))
    given = pl.DataFrame({"key": [b"k"], "value": [b"\xff"], PARTITION: [0]}, schema_overrides={PARTITION: pl.Int32})
    chain.run(given)
    ((_, value, _),) = letters.rows
    assert value == {"key": "6b", "value": "ff"}


def test_a_stage_without_operators_passes_rows_on() -> None:
    chain, _ = chain_of()
    assert chain.first == PASS
    assert outcome(chain, frame([1])) == [1]


class Emitting:
    def __init__(self, topic: str) -> None:
        self._topic = topic

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        context.emit(self._topic, frame.head(1))
        return frame


def test_what_an_operator_emits_is_written_before_what_the_last_one_returns() -> None:
    chain, _ = chain_of(Emitting(SINK))
    assert [(topic, rows.height) for topic, rows in chain.run(frame([1, 2]))] == [(SINK, 1), (SINK, 2)]
    assert [(topic, rows.height) for topic, rows in chain.run(frame([1]))] == [(SINK, 1), (SINK, 1)]


def test_an_output_that_the_stage_does_not_have_is_named_with_those_it_has() -> None:
    chain, _ = chain_of(Emitting("late"))
    with pytest.raises(LookupError, match="no output 'late'; its outputs: counts"):
        chain.run(frame([1]))


def test_rows_and_busy_time_are_counted_for_each_operator() -> None:
    plan: StagePlan = pass_stage(operators=[OperatorPlan("keep", lambda: Filter([pl.col("v") > 1]))])
    metrics = StageMetrics("pass", "pass-0")
    chain = OperatorChain(plan, {}, Letters(), metrics)
    chain.run(frame([1, 2, 3]))
    labels = {"stage": "pass", "replica": "pass-0", "operator": "keep"}
    sample = metrics.registry.get_sample_value
    assert sample("towpath_operator_rows_total", {**labels, "direction": "in"}) == 3
    assert sample("towpath_operator_rows_total", {**labels, "direction": "out"}) == 2
    assert sample("towpath_operator_busy_seconds_total", labels) > 0
