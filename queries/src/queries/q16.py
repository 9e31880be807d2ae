"""Q16, channel statistics: by channel and day, the newest minute, and the numbers of bids, bidders and auctions."""

from __future__ import annotations

import polars as pl

from queries.distinct import columns, counted, day
from queries.nexmark_schema import TOPIC, bids
from towpath.query import Query, agg

MINUTE = "%H:%M"


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Count by channel and day.

    Args:
        partitions: of edges and sink, and so tasks.
        replicas: of the keyed stages, at the start.
        topic: where the events are.
    """
    query = Query("q16", partitions=partitions, description="channel statistics")
    minute = pl.col("date_time").cast(pl.Datetime("ms")).dt.strftime(MINUTE)
    by_channel = bids(query, topic).select("auction", "bidder", "price", "channel", day=day(), minute=minute)
    statistics = counted(by_channel, "channel", "day", replicas=replicas, minute=agg.max("latest_minute"))
    statistics.select("channel", "day", "minute", *columns()).sink("q16", key=("channel", "day"))
    return query


query = build()
