"""Joins of two keyed streams by event time, checked against the columns that they will see."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from statemgr.state import json_codec
from towpath.operators.interval_join import RIGHT, TIME, IntervalJoin, IntervalPairs
from towpath.query.check import Schema, check_names, unknown_column, visible
from towpath.query.errors import ColumnTypeError, QueryError
from towpath.query.place import Place, require_event_time
from towpath.query.plan import Operator
from towpath.query.steps import SelectStep, TableUse

OF_RIGHT = "right."
"""Prefix of the right side's columns on the way to the join."""


@dataclass(frozen=True)
class IntervalJoinStep:
    """Pairs of rows near each other in event time.

    Attributes:
        keys: of both sides.
        pairs: what is kept and goes out.
        columns: that come out → Polars type, reserved ones left out.
        reads: columns that they are made of.
    """

    keys: tuple[str, ...]
    pairs: IntervalPairs
    columns: Schema
    reads: frozenset[str]
    name: str = "join"
    tables: tuple[TableUse, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", (TableUse(self.name, json_codec(list[list[Any]])),))

    def make(self) -> Operator:
        """A new operator."""
        return IntervalJoin(self.keys, self.pairs, self.columns, self.name)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """The key, and what is kept."""
        return set(self.keys) | self.reads

    def keeps(self, columns: Collection[str]) -> bool:
        """If they are part of the key."""
        return set(self.keys).issuperset(columns)


@dataclass(frozen=True)
class JoinSide:
    """One side of a join.

    Attributes:
        places: where its rows are.
        keys: its key columns.
        time: its column of the event time.
    """

    places: Sequence[Place]
    keys: tuple[str, ...]
    time: str

    @property
    def schema(self) -> Schema:
        """Column → Polars type."""
        return self.places[0].schema

    @property
    def key(self) -> str:
        """The key columns with their types, for messages."""
        return ", ".join(f"{name} {self.schema[name]}" for name in self.keys)


def check_sides(left: JoinSide, right: JoinSide, taken: Mapping[str, str], within: tuple[int, int], label: str) -> None:
    """Refuse sides that can't be joined.

    Args:
        left: rows whose columns all come out.
        right: rows whose named columns come out.
        taken: column that comes out → column of the right side.
        within: least and greatest event time of the right row minus that of the left one, in ms.
        label: what messages call the join.

    Raises:
        QueryError: keys, times, columns or bounds do not fit.
    """
    check_names(taken, label)
    for side in (left, right):
        for place in side.places:
            require_event_time(place, side.time, label)
    lower_ms, upper_ms = within
    if lower_ms > upper_ms:
        raise QueryError(f"{label}: within=({lower_ms}, {upper_ms}), but the lower bound comes first")
    if [left.schema[key] for key in left.keys] != [right.schema[key] for key in right.keys]:
        raise ColumnTypeError(
            f"{label}: the left side has the key {left.key}, the right one {right.key}; "
            "keys that are to meet are of the same types"
        )
    for name, column in taken.items():
        if column not in right.schema:
            raise unknown_column(column, right.schema, f"{label}, the right side")
        if name in left.schema:
            raise QueryError(
                f"{label}: the left side has a column {name!r}, too: columns={{'another name': {column!r}}}"
            )


def joined_rows(left: JoinSide, right: JoinSide, taken: Mapping[str, str]) -> list[Place]:
    """Both sides with the same columns, as the join reads them."""
    rest = [name for name in visible(left.schema) if name not in left.keys]
    theirs = {f"{OF_RIGHT}{column}": right.schema[column] for column in dict.fromkeys(taken.values())}
    of_left = [
        *map(pl.col, left.keys),
        pl.lit(value=False).alias(RIGHT),
        pl.col(left.time).alias(TIME),
        *map(pl.col, rest),
        *(pl.lit(None, dtype).alias(name) for name, dtype in theirs.items()),
    ]
    of_right = [
        *(pl.col(their).alias(our) for our, their in zip(left.keys, right.keys, strict=True)),
        pl.lit(value=True).alias(RIGHT),
        pl.col(right.time).alias(TIME),
        *(pl.lit(None, left.schema[name]).alias(name) for name in rest),
        *(pl.col(name.removeprefix(OF_RIGHT)).alias(name) for name in theirs),
    ]
    places = [place.apply(SelectStep(tuple(of_left))) for place in left.places]
    return places + [place.apply(SelectStep(tuple(of_right))) for place in right.places]


def join_step(place: Place, left: JoinSide, taken: Mapping[str, str], within: tuple[int, int]) -> IntervalJoinStep:
    """The join, where both sides have come together."""
    schema = place.schema
    rest = [name for name in visible(left.schema) if name not in left.keys]
    pairs = IntervalPairs(rest, {name: f"{OF_RIGHT}{column}" for name, column in taken.items()}, *within)
    columns = {
        **{name: schema[name] for name in (*left.keys, *rest)},
        **{name: schema[f"{OF_RIGHT}{column}"] for name, column in taken.items()},
    }
    reads = frozenset([RIGHT, TIME, *rest, *(f"{OF_RIGHT}{column}" for column in taken.values())])
    return IntervalJoinStep(left.keys, pairs, columns, reads)
