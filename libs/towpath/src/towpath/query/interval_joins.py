"""Joins of rows that are near each other in event time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from towpath.operators.interval_join import IntervalJoin, IntervalPairs
from towpath.operators.pairs import TIME
from towpath.query.check import Schema
from towpath.query.errors import QueryError
from towpath.query.joins import OF_RIGHT, Meeting, Taken, check_apart, check_meeting, taken_columns
from towpath.query.keyed_places import KeyedPlaces
from towpath.query.place import Place, require_event_time
from towpath.query.plan import Operator
from towpath.query.reductions import kept_columns
from towpath.query.steps import KeepingRows

NAME = "join"
"""Of the step and its table."""


@dataclass(frozen=True)
class IntervalJoinStep(KeepingRows):
    """Pairs of rows near each other in event time; ``reads``: columns that they are made of."""

    keys: tuple[str, ...]
    reduction: IntervalPairs
    reads: frozenset[str]
    name: str = NAME

    def make(self) -> Operator:
        """A new operator."""
        return IntervalJoin(self.keys, self.reduction, self.name)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:
        """The key, the event time, and what is kept."""
        return super().needs(wanted, schema) | {TIME}


def interval_join(
    left: KeyedPlaces, right: KeyedPlaces, on: str | tuple[str, str], within: tuple[int, int], columns: Taken
) -> Place:
    """Add the step; see :meth:`towpath.query.KeyedStream.join`.

    Raises:
        QueryError: keys, times, columns or bounds do not fit.
    """
    label = left.label(NAME)
    ours, theirs = (on, on) if isinstance(on, str) else on
    for side, time in ((left, ours), (right, theirs)):
        for place in side.places:
            require_event_time(place, time, label)
    lower_ms, upper_ms = within
    if lower_ms > upper_ms:
        raise QueryError(f"{label}: within=({lower_ms}, {upper_ms}), but the lower bound comes first")
    meeting = Meeting(left, right, taken_columns(columns), NAME, OF_RIGHT)
    check_meeting(meeting, label, "the left side has", "the right side")
    check_apart(meeting, label)
    place = meeting.in_time(ours, theirs)
    pairs = IntervalPairs(meeting.rest, meeting.named, lower_ms, upper_ms)
    result = place.apply(IntervalJoinStep(left.keys, pairs, meeting.reads))
    kept_columns(place, left.keys, pairs, NAME, OF_RIGHT.prefix)
    return result
