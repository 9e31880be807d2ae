"""Expressions as queries are written in, with the form that each engine takes.

::

    pl.Expr ────────────┐                ┌─ polars: what services run, made once, while the query is written
    narwhals Expr ──────┼─▶ Expression ──┤
    expr(polars, spark) ┘                └─ spark: narwhals, Spark SQL, or a function that gives a Column

Services see the Polars form only, so that it does not matter to them how an expression was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import narwhals as nw
import polars as pl

from towpath.query.errors import QueryError

ColumnFactory = Callable[[], Any]
"""Gives a ``pyspark.sql.Column``; called when Spark runs, so that a query needs no PySpark before."""

SparkForm = nw.Expr | str | ColumnFactory
"""What Spark can run: narwhals, a text in Spark SQL, or a function that gives a Column."""


@dataclass(frozen=True, eq=False)
class Expression:
    """An expression over one row.

    Attributes:
        polars: for the services; it also gives the column its name.
        spark: for Spark; None where it is written for Polars alone.
    """

    polars: pl.Expr
    spark: SparkForm | None = None

    @property
    def name(self) -> str:
        """Column that it makes; empty where that can't be known without a schema."""
        return self.polars.meta.output_name(raise_if_undetermined=False) or ""

    @property
    def column(self) -> str | None:
        """The column that it takes over as it is, renamed or not; None if it calculates."""
        bare = self.polars.meta.undo_aliases()
        return bare.meta.root_names()[0] if bare.meta.is_column() else None

    def alias(self, name: str) -> Expression:
        """The same under another name."""
        return replace(self, polars=self.polars.alias(name))


Written = pl.Expr | nw.Expr | Expression
"""What is accepted where an expression is expected."""


def expr(*, polars: pl.Expr, spark: str | ColumnFactory) -> Expression:
    """An expression in two forms, for what narwhals can't say.

    ::

        expr(polars=pl.col("url").str.split("/").list.get(3), spark="GET(SPLIT(url, '/'), 3)")

    That both mean the same is up to who writes them.

    Args:
        polars: for the services; it also gives the column its name.
        spark: a text in Spark SQL, or a function without arguments that gives a ``pyspark.sql.Column``.

    Raises:
        QueryError: a form is of another type.
    """
    if not isinstance(polars, pl.Expr):
        raise QueryError(f"expr(polars=…) is {type(polars).__name__}, not a polars expression")
    if not isinstance(spark, str) and not callable(spark):
        raise QueryError(
            f"expr(spark=…) is {type(spark).__name__}, neither a text in Spark SQL nor a function that gives a Column"
        )
    return Expression(polars, spark)


def expression(written: str | Written) -> Expression:
    """An expression in both forms; a text is the name of a column.

    Raises:
        QueryError: it is of no known kind.
    """
    match written:
        case Expression():
            return written
        case str():
            return Expression(pl.col(written))
        case pl.Expr():
            return Expression(written)
        case nw.Expr():
            return Expression(polars_form(written), written)
        case _:
            raise QueryError(
                f"{written!r} is {type(written).__name__}, not an expression: write it with polars, narwhals or "
                "towpath.query.expr(polars=…, spark=…)"
            )


def expressions(written: Iterable[str | Written]) -> tuple[Expression, ...]:
    """Several of them."""
    return tuple(map(expression, written))


def polars_forms(written: Iterable[Expression]) -> tuple[pl.Expr, ...]:
    """What the services run."""
    return tuple(each.polars for each in written)


def polars_form(written: nw.Expr) -> pl.Expr:
    """A narwhals expression as the Polars expression that narwhals itself would run.

    Raises:
        QueryError: narwhals can't say it in Polars.
    """
    try:
        compliant: Any = written._to_compliant_expr(_polars_namespace())  # noqa: SLF001
    except Exception as error:
        raise QueryError(f"narwhals can't say an expression in Polars: {error}") from error
    form: pl.Expr = compliant.native
    return form


@cache
def _polars_namespace() -> Any:
    """Narwhals' side of Polars. Narwhals has no public way from an expression to the native one: a test holds it."""
    return nw.from_native(pl.DataFrame()).__narwhals_namespace__()
