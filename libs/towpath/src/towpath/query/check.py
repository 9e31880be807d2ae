"""Schema checks without data: an operator runs on an empty frame, and what it raises becomes one clear line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from statemgr.state import TaskState
from towpath.operators.keys import is_key_type
from towpath.operators.outbox import Outbox
from towpath.operators.timed import Timed
from towpath.query.errors import BatchDependentError, ColumnTypeError, QueryError, UnknownColumnError, nearest
from towpath.query.plan import EVENTS, PARTITION, RESERVED_PREFIX, SCHED, SCHED_NEWEST, Operator

Schema = Mapping[str, Any]


_OF_EVENTS = (SCHED, SCHED_NEWEST, EVENTS)
"""What rows have of the events behind them; rows that a timer makes have none."""


class PlanTimeContext:
    """The context of a run on no rows: no tasks, nothing to report."""

    @property
    def tasks(self) -> Mapping[int, TaskState]:
        """No task."""
        return {}

    def dead_letter(self, partition: int, value: bytes, reason: str) -> None:
        """Never called, since there are no rows."""

    def late(self, rows: int) -> None:
        """Never called, since there are no rows."""

    def emit(self, topic: str, frame: pl.DataFrame) -> None:
        """Drops the empty frame."""


def visible(schema: Schema) -> list[str]:
    """The columns that are the user's."""
    return [name for name in schema if not name.startswith(RESERVED_PREFIX)]


def resulting_schema(operator: Operator, schema: Schema, place: str) -> dict[str, Any]:
    """Columns that the operator makes of these columns.

    Args:
        operator: any step; it is run once on an empty frame.
        schema: column → Polars type, reserved columns included.
        place: what the message calls the operator.

    Raises:
        UnknownColumnError: it uses a column that is not there.
        ColumnTypeError: it does not fit the types.
        QueryError: it drops reserved columns, or takes their names.
    """
    empty = pl.Schema(schema).to_frame()
    try:
        result = operator.process(empty, PlanTimeContext())
    except (pl.exceptions.ColumnNotFoundError, KeyError) as error:
        raise unknown_column(_column_of(error), schema, place) from error
    except (pl.exceptions.PolarsError, TypeError) as error:
        raise ColumnTypeError(f"{place} does not fit the columns {_described(schema)}: {_first_line(error)}") from error
    if not isinstance(result, pl.DataFrame):
        raise QueryError(f"{place} returned {type(result).__name__}; it must return a polars.DataFrame")
    without = _OF_EVENTS if isinstance(operator, Timed | Outbox) else ()
    _check_reserved({name: schema[name] for name in schema if name not in without}, result.schema, place)
    return dict(result.schema)


def unknown_column(name: str, schema: Schema, place: str) -> UnknownColumnError:
    """The error for a name that is no column."""
    known = visible(schema)
    return UnknownColumnError(f"{place}: unknown column {name!r}{nearest(name, known)} (columns: {', '.join(known)})")


def check_row_wise(expressions: Iterable[pl.Expr], place: str) -> None:
    """Refuse expressions that look at other rows.

    Raises:
        BatchDependentError: naming the expression. Expressions that Polars can't judge without data pass.
    """
    for expression in expressions:
        if not _is_row_wise(expression):
            raise BatchDependentError(
                f"{place}: {expression} looks at other rows of the batch, and where a batch ends is chance; "
                "use key_by(…) with a keyed operator for results over many rows"
            )


def _is_row_wise(expression: pl.Expr) -> bool:
    """Whether an expression and all of its parts look at one row; parts that can't be judged pass."""
    parts = expression.meta.pop()
    if parts and all(map(_is_constant, parts)):
        return True
    try:
        constant = expression.meta.is_scalar() and not expression.meta.root_names()
        row_wise = expression.meta.is_row_separable() and (constant or expression.meta.is_length_preserving())
    except pl.exceptions.PolarsError:
        return True  # wildcards and Python functions: only a schema or data could tell
    return row_wise and all(map(_is_row_wise, parts))


def _is_constant(expression: pl.Expr) -> bool:
    parts = expression.meta.pop()
    return all(map(_is_constant, parts)) if parts else expression.meta.is_literal()


def check_key(columns: Sequence[str], schema: Schema, place: str) -> None:
    """Check that the columns exist and can be a key.

    Raises:
        QueryError: no column is named.
        UnknownColumnError: a column is missing.
        ColumnTypeError: a column's type has no canonical text.
    """
    if not columns:
        raise QueryError(f"{place}: name at least one key column")
    for column in columns:
        if column not in schema:
            raise unknown_column(column, schema, place)
        if not is_key_type(schema[column], alone=len(columns) == 1):
            raise ColumnTypeError(
                f"{place}: column {column!r} is {schema[column]}, which has no one text per value; "
                "a key is made of integers, strings and booleans, so cast it first"
            )


def check_names(names: Iterable[str], place: str) -> None:
    """Refuse names that only Towpath may use.

    Raises:
        QueryError: naming the column.
    """
    for name in names:
        if name.startswith(RESERVED_PREFIX):
            raise QueryError(f"{place}: column names that begin with {RESERVED_PREFIX!r} are reserved; rename {name!r}")


def _check_reserved(before: Schema, after: Schema, place: str) -> None:
    lost = [name for name in before if name.startswith(RESERVED_PREFIX) and name not in after]
    if lost:
        raise QueryError(
            f"{place} dropped {', '.join(lost)}: keep the columns that begin with {RESERVED_PREFIX!r}, "
            f"for example by select(…, pl.col('^{RESERVED_PREFIX}.*$'))"
        )
    if after[PARTITION] != before[PARTITION]:
        raise QueryError(f"{place} changed {PARTITION} to {after[PARTITION]}: leave reserved columns as they are")


def _column_of(error: Exception) -> str:
    text = str(error.args[0]) if error.args else ""
    quoted = re.search(r'"([^"]+)"', text)
    return quoted.group(1) if quoted else text.split("\n", 1)[0].strip("'")


def _described(schema: Schema) -> str:
    return ", ".join(f"{name} {schema[name]}" for name in visible(schema))


def _first_line(error: Exception) -> str:
    return str(error).split("\n", 1)[0]
