"""Rows that meet the newest row which a table has for their key."""

from __future__ import annotations

import polars as pl

from towpath.operators.enriched import Enriched
from towpath.operators.expiry import Expiry
from towpath.query.errors import QueryError
from towpath.query.expiring import expiring, keep
from towpath.query.joins import Meeting, SideNames, Taken, check_meeting, taken_columns
from towpath.query.keyed_places import KeyedPlaces
from towpath.query.place import Place
from towpath.query.reductions import Kept

NAME = "enrich"
"""Of the step and its table."""

_NAMES = SideNames("of_table", "table.", "of_table.time")


def enriched(rows: KeyedPlaces, table: KeyedPlaces, columns: Taken, ttl_ms: int | None, ttl_on: str | None) -> Place:
    """Add the step; see :meth:`towpath.query.KeyedStream.enrich`.

    Raises:
        QueryError: something does not fit.
    """
    label = rows.label(NAME)
    meeting = Meeting(rows, table, taken_columns(columns), NAME, _NAMES)
    check_meeting(meeting, label, "rows have", "the table")
    for name in meeting.taken:
        if name in rows.keys:
            raise QueryError(f"{label}: {name!r} is the key, and the same on both sides")

    def side(place: Place, *, of_right: bool) -> Place:
        place, expiry = expiring(place, ttl_ms, ttl_on, NAME)
        return meeting.side(place, of_right=of_right, on=None if expiry is None else expiry.on)

    ours = [side(place, of_right=False) for place in rows.places]
    theirs = [side(place, of_right=True) for place in table.places]
    reduction = Enriched(pl.col(_NAMES.flag), meeting.rest, meeting.named)
    expiry = None if ttl_ms is None else Expiry(ttl_ms, _NAMES.time)
    kept = Kept(NAME, reduction, meeting.reads)
    return keep(meeting.gather(ours, theirs), rows.keys, kept, expiry, _NAMES.prefix)
