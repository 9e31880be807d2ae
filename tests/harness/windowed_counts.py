"""Bids per auction and window of event time, under a name of the test's choice."""

from __future__ import annotations

import polars as pl

from queries.nexmark_schema import EMIT_TIME, EVENT, EVENT_TIME
from towpath.query import Query, tumbling

WINDOW_MS = 500


def build(app: str, partitions: int = 4) -> Query:
    """Count bids per auction and half second: reads ``<app>-events``, writes ``<app>-counts``.

    Events of a partition come in order, and none of them is to be late, so nothing is waited for and no partition is
    ever idle: what is sent last closes the windows.
    """
    query = Query(app, partitions=partitions)
    events = query.source(
        f"{app}-events", schema=EVENT, emit_time=EMIT_TIME, event_time=EVENT_TIME, lag_ms=0, idle_s=3600
    )
    by_auction = events.filter(pl.col("type") == "bid").key_by("auction").stage("count")
    by_auction.window(tumbling(WINDOW_MS), on=EVENT_TIME).count().sink(f"{app}-counts", key="auction")
    return query
