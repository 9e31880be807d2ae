"""Bids with their auction, as far as they were made while it was open: what Q4 and Q9 begin with."""

from __future__ import annotations

import polars as pl

from queries.nexmark_schema import TOPIC, events
from towpath.query import Query, Stream

AUCTION = ("item_name", "description", "initial_bid", "reserve", "date_time", "expires", "seller", "category", "extra")


def valid_bids(query: Query, topic: str = TOPIC, replicas: int = 1) -> Stream:
    """Bids made from the start of their auction to its end, both included, with the columns of the auction.

    They are placed by auction; a bid that comes before its auction waits for it. Time, padding and number of the bid
    are ``bid_date_time``, ``bid_extra`` and ``bid_eid``.
    """
    all_events = events(query, topic)
    auctions = all_events.filter(pl.col("type") == "auction")
    own = {f"bid_{name}": pl.col(name) for name in ("date_time", "extra", "eid")}
    bids = all_events.filter(pl.col("type") == "bid").select("auction", "bidder", "price", **own)
    joined = bids.key_by("auction").stage("join", parallelism=replicas)
    known = joined.enrich(auctions.key_by("id"), columns=AUCTION)
    return known.filter(pl.col("bid_date_time").is_between(pl.col("date_time"), pl.col("expires")))
