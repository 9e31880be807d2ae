"""NEXMark's events as a query reads them: the topic, and the fields of its JSON records.

One topic holds persons, auctions and bids; ``type`` says which. A record has only the fields of its kind, the others
are null. Money is integer US cents, times are integer milliseconds since the epoch.
"""

from __future__ import annotations

import narwhals as nw
import polars as pl

from towpath.query import Query, Stream

TOPIC = "nexmark-events"

EMIT_TIME = "sched_ms"
"""When the event was meant to be emitted, in ms: the start of its latency."""

EVENT_TIME = "date_time"
"""When an event happened, in ms since the epoch."""

ARRIVED = "arrived"

PERSON = {
    "id": pl.Int64,
    "name": pl.String,
    "email_address": pl.String,
    "credit_card": pl.String,
    "city": pl.String,
    "state": pl.String,
}
AUCTION = {
    "id": pl.Int64,
    "item_name": pl.String,
    "description": pl.String,
    "initial_bid": pl.Int64,
    "reserve": pl.Int64,
    "expires": pl.Int64,
    "seller": pl.Int64,
    "category": pl.Int64,
}
BID = {
    "auction": pl.Int64,
    "bidder": pl.Int64,
    "price": pl.Int64,
    "channel": pl.String,
    "url": pl.String,
}
EVENT = {
    "type": pl.String,
    "eid": pl.Int64,
    "date_time": pl.Int64,
    **PERSON,
    **AUCTION,
    **BID,
    "extra": pl.String,
}
"""Field → type of every kind of event."""


def events(query: Query, topic: str = TOPIC, replicas: int = 1) -> Stream:
    """All events; ``replicas`` of the stage that reads them."""
    return query.source(topic, schema=EVENT, emit_time=EMIT_TIME, event_time=EVENT_TIME, parallelism=replicas)


def arriving_bids(query: Query, topic: str = TOPIC) -> Stream:
    """The bids, with the time at which Kafka has taken each in as ``arrived``, which is their event time, too."""
    arriving = query.source(
        topic, schema=EVENT, emit_time=EMIT_TIME, timestamp_column=ARRIVED, event_time=ARRIVED, lag_ms=0
    )
    return arriving.filter(nw.col("type") == "bid")


def bids(query: Query, topic: str = TOPIC, replicas: int = 1) -> Stream:
    """The bids, 46 of 50 events; ``replicas`` of the stage that reads them."""
    return events(query, topic, replicas).filter(nw.col("type") == "bid")
