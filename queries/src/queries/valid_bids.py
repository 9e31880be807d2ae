"""Bids with their auction, as far as they were made while it was open: what Q4 and Q9 begin with."""

from __future__ import annotations

from typing import Literal

import narwhals as nw

from queries.nexmark_schema import TOPIC, events
from towpath.query import Query, Stream, until

Mode = Literal["continuous", "on_close"]
"""As of now, or when auctions have ended."""

AUCTION = ("item_name", "description", "initial_bid", "reserve", "date_time", "expires", "seller", "category", "extra")


def valid_bids(query: Query, topic: str = TOPIC, replicas: int = 1, *, closed: Literal["both", "left"]) -> Stream:
    """Bids made while their auction was open, with its columns; ``closed``: whether its end belongs to that time, too.

    They are placed by auction; a bid that comes before its auction waits for it. Time, padding and number of the bid
    are ``bid_date_time``, ``bid_extra`` and ``bid_eid``.
    """
    all_events = events(query, topic)
    auctions = all_events.filter(nw.col("type") == "auction")
    own = {f"bid_{name}": nw.col(name) for name in ("date_time", "extra", "eid")}
    bids = all_events.filter(nw.col("type") == "bid").select("auction", "bidder", "price", **own)
    joined = bids.key_by("auction").stage("join", parallelism=replicas)
    known = joined.enrich(auctions.key_by("id"), columns=AUCTION)
    return known.filter(nw.col("bid_date_time").is_between(nw.col("date_time"), nw.col("expires"), closed=closed))


def winning_bids(query: Query, topic: str = TOPIC, replicas: int = 1) -> Stream:
    """Of each auction with bids the highest one, the earliest of equal ones, when event time has come to its end."""
    bids = valid_bids(query, topic, replicas, closed="left").stage("winner", parallelism=replicas).key_by("auction")
    order = {"by": ("price", "bid_date_time", "bid_eid"), "descending": (True, False, False)}
    return bids.window(until("expires")).top(1, **order, rank="place")
