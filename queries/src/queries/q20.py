"""Q20, expand bid with auction: every bid on an auction of category 10, with what is known of the auction.

Every auction goes to the join, not only those of the category, so that no bid waits longer than for its auction.
"""

from __future__ import annotations

import narwhals as nw

from queries.nexmark_schema import TOPIC, events
from towpath.query import Query

CATEGORY = 10
OF_AUCTION = ("item_name", "description", "initial_bid", "reserve", "expires", "seller", "category")


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Join bids with their auctions.

    Args:
        partitions: of the edge and the sink, and so tasks.
        replicas: of the keyed stage, at the start.
        topic: where the events are.
    """
    query = Query("q20", partitions=partitions, description="expand bid with auction")
    all_events = events(query, topic)
    auctions = all_events.filter(nw.col("type") == "auction")
    bid = ("bidder", "price", "channel", "url")
    bids = all_events.filter(nw.col("type") == "bid").select("auction", *bid, "date_time", "extra")
    known = {name: name for name in OF_AUCTION} | {"auction_date_time": "date_time", "auction_extra": "extra"}
    expanded = bids.key_by("auction").stage("join", parallelism=replicas).enrich(auctions.key_by("id"), columns=known)
    expanded.filter(nw.col("category") == CATEGORY).select(
        *("auction", *bid, nw.col("date_time").alias("bid_date_time"), nw.col("extra").alias("bid_extra")),
        *("item_name", "description", "initial_bid", "reserve", "auction_date_time", "expires"),
        *("seller", "category", "auction_extra"),
    ).sink("q20")
    return query


query = build()
