"""Q16, channel statistics: by channel and day, the newest minute, and the numbers of bids, bidders and auctions."""

from __future__ import annotations

from queries.distinct import columns, counted
from queries.nexmark_schema import TOPIC, bids
from queries.times import day, minute
from towpath.query import Query, agg


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Count by channel and day.

    Args:
        partitions: of edges and sink, and so tasks.
        replicas: of the keyed stages, at the start.
        topic: where the events are.
    """
    query = Query("q16", partitions=partitions, description="channel statistics")
    by_channel = bids(query, topic).select("auction", "bidder", "price", "channel", day=day(), minute=minute())
    statistics = counted(by_channel, "channel", "day", replicas=replicas, minute=agg.max("latest_minute"))
    statistics.select("channel", "day", "minute", *columns()).sink("q16", key=("channel", "day"))
    return query


query = build()
