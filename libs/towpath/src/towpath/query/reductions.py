"""What keyed steps keep of the rows of a key, checked against the columns that they will see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from towpath.operators.aggregates import Aggregate, Aggregates
from towpath.operators.changed import Changed
from towpath.operators.growing_rows import Growing
from towpath.operators.highest import Highest
from towpath.operators.keyed_rows import Keeping, Reduction, kept_schema
from towpath.operators.keys import KEY_TYPES
from towpath.operators.ranked import Ranked
from towpath.query.check import Schema, check_names, check_row_wise, unknown_column, visible
from towpath.query.errors import ColumnTypeError, QueryError
from towpath.query.place import Place
from towpath.query.steps import read_by

Columns = str | Sequence[str]
"""One column or several."""


class Kept(NamedTuple):
    """What a step keeps.

    Attributes:
        name: of the step and its table.
        reduction: what is kept.
        reads: columns that it is made of.
    """

    name: str
    reduction: Reduction | Growing
    reads: frozenset[str]


def column_names(columns: Columns) -> tuple[str, ...]:
    """One name or several, as a tuple."""
    return (columns,) if isinstance(columns, str) else tuple(columns)


def aggregated(place: Place, keys: Sequence[str], columns: Mapping[str, Aggregate], previous: str | None) -> Kept:
    """Aggregates of a key's rows.

    Raises:
        QueryError: no column, or one that can't be.
    """
    label = place.label("aggregate")
    if not columns:
        raise QueryError("aggregate() needs at least one column, such as bids=agg.count()")
    check_names(columns, label)
    named = [*columns, *(f"{name}{previous}" for name in columns if previous is not None)]
    twice = sorted({name for name in named if named.count(name) > 1})
    if twice:
        raise QueryError(f"{label}: previous={previous!r} makes two columns named {twice[0]!r}")
    taken = [name for name in named if name in keys]
    if taken:
        raise QueryError(f"{label}: the key has the name {taken[0]!r}; choose another")
    expressions = [read for aggregate in columns.values() for read in aggregate.reads]
    check_row_wise(expressions, label)
    reads = frozenset(read_by(expressions, place.schema))
    return Kept("aggregate", Aggregates(columns, previous), reads)


def changed(place: Place, keys: Sequence[str], columns: Mapping[str, Aggregate], previous: str | None) -> Kept:
    """Aggregates of a key's rows, of which only those go out that are not as before; see :func:`aggregated`."""
    return aggregated(place, keys, columns, previous)._replace(reduction=Changed(Aggregates(columns, previous)))


def latest(place: Place, keys: Sequence[str], by: Columns) -> Kept:
    """The newest row of a key.

    Raises:
        QueryError: a column can't be ordered by.
    """
    order = column_names(by)
    columns = _ordered(place, keys, "latest", order)
    reduction = Ranked(columns, 1, order, [True] * len(order), ties="last")
    return Kept("latest", reduction, frozenset(columns))


def top(place: Place, keys: Sequence[str], n: int, by: Columns, descending: bool | Sequence[bool], rank: str) -> Kept:
    """The first rows of a key.

    Raises:
        QueryError: a column can't be ordered by, or the rank's name is taken.
    """
    label, order = place.label("top"), column_names(by)
    flags = [descending] * len(order) if isinstance(descending, bool) else list(descending)
    if n < 1:
        raise QueryError(f"{label}: n={n}, but there is at least one place")
    if len(flags) != len(order):
        raise QueryError(f"{label}: {len(order)} columns in by, but {len(flags)} values in descending")
    check_names([rank], label)
    if rank in place.schema:
        raise QueryError(f"{label}: rank={rank!r} is a column already; choose another name")
    columns = _ordered(place, keys, "top", order)
    return Kept("top", Ranked(columns, n, order, flags, rank=rank), frozenset(columns))


def highest(place: Place, keys: Sequence[str], by: str) -> Kept:
    """All rows of a key with the greatest value.

    Raises:
        QueryError: the column can't be ordered by.
    """
    columns = _ordered(place, keys, "highest", (by,))
    return Kept("highest", Highest(columns, by), frozenset(columns))


def kept_columns(place: Place, keys: Sequence[str], keeping: Keeping, name: str, prefix: str = "") -> Schema:
    """Columns that are kept in state, whose types must have a form in JSON, since that is how state is written.

    Args:
        place: where rows come from.
        keys: their key.
        keeping: what is kept of them.
        name: of the step.
        prefix: of names that mean nothing to the user.

    Raises:
        ColumnTypeError: a column has no such form.
    """
    found = kept_schema(pl.Schema(place.schema).to_frame(), keys, keeping)
    for each, dtype in found.items():
        if not can_be_kept(dtype):
            column = each.removeprefix(prefix).split(".", 1)[0]
            raise ColumnTypeError(
                f"{place.label(name)}: column {column!r} is {dtype}, which can't be kept in state; "
                "cast it to an integer, a float or text first"
            )
    return found


def can_be_kept(dtype: Any) -> bool:
    """Whether a value of this type comes back from JSON as it was."""
    return can_be_kept(dtype.inner) if isinstance(dtype, pl.List) else dtype in (*KEY_TYPES, pl.Float32, pl.Float64)


def _ordered(place: Place, keys: Sequence[str], name: str, by: Sequence[str]) -> list[str]:
    """Columns that are kept for an order: all but the key's."""
    columns = [column for column in visible(place.schema) if column not in keys]
    for column in by:
        if column in keys:
            raise QueryError(f"{place.label(name)}: {column!r} is the key, and the same for all of its rows")
        if column not in columns:
            raise unknown_column(column, place.schema, place.label(name))
    if not by:
        raise QueryError(f"{place.label(name)}: by names no column")
    return columns
