"""Whether expressions and types of a query have a form on Spark."""

from __future__ import annotations

from collections.abc import Iterable

from towpath.operators.aggregates import Aggregates
from towpath.query.check import Schema, visible
from towpath.query.expressions import Expression
from towpath.query.steps import FilterStep, SelectStep, WithColumnsStep
from towpath.spark.facts import Unfit
from towpath.spark.types import spark_type


def written(step: FilterStep | WithColumnsStep | SelectStep) -> tuple[Expression, ...]:
    """The expressions of a step as they were written."""
    if step.written:
        return step.written
    forms = step.predicates if isinstance(step, FilterStep) else step.expressions
    return tuple(map(Expression, forms))


def check_expressions(expressions: Iterable[Expression]) -> None:
    """Check that Spark can run them.

    Raises:
        Unfit: naming the expression.
    """
    for each in expressions:
        if each.polars.meta.has_multiple_outputs():
            raise Unfit(f"{_short(each)} is several columns at once: name each of them")
        if each.spark is None and each.column is None:
            raise Unfit(
                f"{_short(each)} is written for Polars alone: write it with narwhals, or as "
                "towpath.query.expr(polars=…, spark=…)"
            )


def check_aggregates(aggregates: Aggregates) -> None:
    """Check that Spark has the aggregates.

    Raises:
        Unfit: naming the column.
    """
    for name, aggregate in aggregates.columns.items():
        if aggregate.call is None:
            raise Unfit(f"its column {name!r} is an aggregate that only services know")
        check_expressions(aggregate.call.expressions)


def check_types(schema: Schema) -> None:
    """Check that Spark has the types of columns.

    Raises:
        Unfit: naming the column.
    """
    for name in visible(schema):
        try:
            spark_type(schema[name])
        except ValueError as error:
            raise Unfit(f"column {name!r}: {error}") from error


def _short(expression: Expression) -> str:
    return str(expression.polars).split("\n", 1)[0]
