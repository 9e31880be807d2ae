"""Joins of rows that are in the same window of event time."""

from __future__ import annotations

from typing import get_args

from towpath.operators.pairs import TIME, How, Pairs, WindowPairs
from towpath.operators.windows import WINDOW_END, WINDOW_START, Until, Window
from towpath.query.errors import QueryError
from towpath.query.joins import OF_RIGHT, Meeting, Taken, check_apart, check_meeting, taken_columns
from towpath.query.keyed_places import KeyedPlaces
from towpath.query.place import Place
from towpath.query.reductions import kept_columns
from towpath.query.windowed_steps import AssignWindowsStep, WindowedRowsStep

NAME = "join"
"""Of the step and its table."""


def window_join(
    left: KeyedPlaces,
    right: KeyedPlaces,
    window: Window | Until,
    on: tuple[str, str],
    columns: Taken,
    how: How,
    *,
    updates: bool,
) -> Place:
    """Add the step; see :meth:`towpath.query.WindowedStream.join`.

    Args:
        left: rows whose columns all come out.
        right: rows whose named columns come out.
        window: of both sides; of windows that end when rows say, that of either.
        on: column of the event time of the left side, and of the right one.
        columns: see :data:`~towpath.query.joins.Taken`.
        how: whether left rows without a partner come out, too.
        updates: whether pairs go out when they come about, and not when their window closes.

    Raises:
        QueryError: keys or columns do not fit, or results could not be taken back.
    """
    label = left.label(NAME)
    if how not in get_args(How):
        raise QueryError(f"{label}: how={how!r}, but it is 'inner' or 'left'")
    if how == "left" and updates:
        raise QueryError(
            f"{label}: how='left' with emit='update': a row that has no partner so far may get one, and nothing takes "
            "back that it had none; leave emit out"
        )
    ours, theirs = on
    meeting = Meeting(left, right, taken_columns(columns), NAME, OF_RIGHT, _bounds(window))
    check_meeting(meeting, label, "the left side has", "the right side")
    check_apart(meeting, label)
    for name in meeting.replaced:
        if name in meeting.taken or name in left.keys or (name in left.schema and name != ours):
            raise QueryError(f"{label}: what comes out would have two columns {name!r}; rename that of the rows")
    shared = window if isinstance(window, Window) else Until(TIME)
    place = meeting.in_time(ours, theirs).apply(AssignWindowsStep(shared, TIME))
    pairs = Pairs(meeting.rest, meeting.named) if updates else WindowPairs(meeting.rest, meeting.named, how)
    kept = kept_columns(place, (*left.keys, WINDOW_END), pairs, NAME, OF_RIGHT.prefix)
    schema = {key: place.schema[key] for key in left.keys}
    return place.apply(WindowedRowsStep(schema, shared, pairs, kept, meeting.reads, NAME, updates=updates))


def _bounds(window: Window | Until) -> tuple[str, ...]:
    """Columns of the bounds of windows; those that end when rows say have no start."""
    return (WINDOW_START, WINDOW_END) if isinstance(window, Window) else (WINDOW_END,)
