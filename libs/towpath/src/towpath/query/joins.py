"""How two keyed streams come together in one step, checked against the columns that it will see."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl

from towpath.operators.pairs import RIGHT, TIME
from towpath.query.check import Schema, check_names, unknown_column, visible
from towpath.query.errors import ColumnTypeError, QueryError
from towpath.query.keyed_places import KeyedPlaces
from towpath.query.place import Place
from towpath.query.steps import SideStep
from towpath.query.windowed_steps import RequireEventTimeStep

Taken = Sequence[str] | Mapping[str, str]
"""The right side's columns that come out, or column that comes out → column of the right side."""


class SideNames(NamedTuple):
    """What columns are called on the way to the step.

    Attributes:
        flag: whether a row is of the right side (Boolean).
        prefix: of the right side's columns.
        time: event time of a row.
    """

    flag: str
    prefix: str
    time: str


OF_RIGHT = SideNames(RIGHT, "right.", TIME)
"""Of joins of rows with rows."""


@dataclass(frozen=True)
class Meeting:
    """Two streams that are to meet.

    Attributes:
        left: rows whose columns all come out, but for those that the right side has under the same name.
        right: rows whose named columns come out.
        taken: column that comes out → column of the right side.
        step: name of the step in which they meet, and of its stage if that has none.
        names: of columns on the way there.
        replaced: columns of the left side in whose place the step gives others.
    """

    left: KeyedPlaces
    right: KeyedPlaces
    taken: Mapping[str, str]
    step: str
    names: SideNames
    replaced: Collection[str] = ()

    @property
    def rest(self) -> list[str]:
        """Columns of the left side that come out, besides the key."""
        left_out = {*self.left.keys, *self.taken, *self.replaced}
        return [name for name in visible(self.left.schema) if name not in left_out]

    @property
    def named(self) -> dict[str, str]:
        """Column that comes out → the right side's column as it is called on the way."""
        return {name: f"{self.names.prefix}{column}" for name, column in self.taken.items()}

    @property
    def carried(self) -> Schema:
        """The right side's columns, as they are called on the way → Polars type."""
        columns = dict.fromkeys(self.taken.values())
        return {f"{self.names.prefix}{column}": self.right.schema[column] for column in columns}

    @property
    def reads(self) -> frozenset[str]:
        """What the step reads besides key and event time."""
        return frozenset([self.names.flag, *self.rest, *self.carried])

    def side(self, place: Place, *, of_right: bool, on: str | None) -> Place:
        """The rows of one side, in the columns that both sides have; ``on``: of an event time that goes along."""
        columns = self._right_columns() if of_right else self._left_columns()
        time = [] if on is None else [pl.col(on).alias(self.names.time)]
        return place.apply(SideStep((*columns, *time), of_right=of_right, joins=self.step, on=on))

    def gather(self, left: Sequence[Place], right: Sequence[Place]) -> Place:
        """The stage in which both sides have come together."""
        return self.left.gather([*left, *right], self.step)

    def in_time(self, ours: str, theirs: str) -> Place:
        """The same, for rows with an event time; ``ours``, ``theirs``: its column on either side."""
        place = self.gather(
            [self.side(place, of_right=False, on=ours) for place in self.left.places],
            [self.side(place, of_right=True, on=theirs) for place in self.right.places],
        )
        return place.apply(RequireEventTimeStep(self.names.time))

    def _left_columns(self) -> list[pl.Expr]:
        return [
            *map(pl.col, self.left.keys),
            pl.lit(value=False).alias(self.names.flag),
            *map(pl.col, self.rest),
            *(pl.lit(None, dtype).alias(name) for name, dtype in self.carried.items()),
        ]

    def _right_columns(self) -> list[pl.Expr]:
        return [
            *(pl.col(theirs).alias(ours) for ours, theirs in zip(self.left.keys, self.right.keys, strict=True)),
            pl.lit(value=True).alias(self.names.flag),
            *(pl.lit(None, self.left.schema[name]).alias(name) for name in self.rest),
            *(pl.col(name.removeprefix(self.names.prefix)).alias(name) for name in self.carried),
        ]


def taken_columns(columns: Taken) -> dict[str, str]:
    """Column that comes out → column of the right side."""
    return dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}


def check_meeting(meeting: Meeting, label: str, ours: str, theirs: str) -> None:
    """Refuse streams that can't meet.

    Args:
        meeting: the two.
        label: what messages call the step.
        ours: what they call the left side, with its verb.
        theirs: what they call the right side.

    Raises:
        QueryError: keys or columns do not fit.
    """
    left, right = meeting.left, meeting.right
    check_names(meeting.taken, label)
    for column in meeting.taken.values():
        if column not in right.schema:
            raise unknown_column(column, right.schema, f"{label}, {theirs}")
    if [left.schema[key] for key in left.keys] != [right.schema[key] for key in right.keys]:
        raise ColumnTypeError(
            f"{label}: {ours} the key {left.key}, {theirs} {right.key}; keys that are to meet are of the same types"
        )


def check_apart(meeting: Meeting, label: str) -> None:
    """Refuse columns of the same name: of both sides there is a row, and both come out.

    Raises:
        QueryError: naming the column.
    """
    for name, column in meeting.taken.items():
        if name in meeting.left.schema:
            raise QueryError(
                f"{label}: the left side has a column {name!r}, too: columns={{'another name': {column!r}}}"
            )
