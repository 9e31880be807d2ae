"""Q15, bidding statistics: by day, the numbers of bids, of distinct bidders and of distinct auctions, by price band."""

from __future__ import annotations

import narwhals as nw

from queries.distinct import columns, counted
from queries.nexmark_schema import TOPIC, bids
from queries.times import day
from towpath.query import Query


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Count by day.

    Args:
        partitions: of edges and sink, and so tasks.
        replicas: of the keyed stages, at the start.
        topic: where the events are.
    """
    query = Query("q15", partitions=partitions, description="bidding statistics")
    by_day = bids(query, topic).select("auction", "bidder", "price", day=day(), minute=nw.lit(""))
    counted(by_day, "day", replicas=replicas).select("day", *columns()).sink("q15", key="day")
    return query


query = build()
