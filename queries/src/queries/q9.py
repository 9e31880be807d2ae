"""Q9, winning bids: of each auction the highest bid as of now, the earliest of equal ones, with all of both."""

from __future__ import annotations

import polars as pl

from queries.nexmark_schema import TOPIC
from queries.valid_bids import AUCTION, valid_bids
from towpath.query import Query


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Keep the highest bid of each auction.

    Args:
        partitions: of edges and sink, and so tasks.
        replicas: of the keyed stages, at the start.
        topic: where the events are.
    """
    query = Query("q9", partitions=partitions, description="winning bids")
    bids = valid_bids(query, topic, replicas).stage("winner", parallelism=replicas).key_by("auction")
    winners = bids.top(1, by=("price", "bid_date_time", "bid_eid"), descending=(True, False, False), rank="place")
    winners.with_columns(id=pl.col("auction")).select(
        *("id", *AUCTION, "auction", "bidder", "price", "bid_date_time", "bid_extra")
    ).sink("q9", key="id")
    return query


query = build()
