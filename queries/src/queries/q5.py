"""Q5, hot items: of every 10 seconds, beginning every 2, the auctions with the most bids, and how many those are."""

from __future__ import annotations

import narwhals as nw

from queries.nexmark_schema import EVENT_TIME, TOPIC, bids
from towpath.query import Query, hopping, tumbling

SIZE_MS, SLIDE_MS = 10_000, 2_000


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Find the auctions with the most bids.

    Args:
        partitions: of edges and sink, and so tasks.
        replicas: of the keyed stages, at the start.
        topic: where the events are.
    """
    query = Query("q5", partitions=partitions, description="hot items")
    counted = bids(query, topic).key_by("auction").stage("count", parallelism=replicas)
    counts = counted.window(hopping(SIZE_MS, SLIDE_MS), on=EVENT_TIME).count("num")
    end = nw.col("window_end")
    together = counts.select("auction", "num", start=nw.col("window_start"), end=end, last=end - 1).key_by("end")
    hottest = together.stage("hottest").window(tumbling(SLIDE_MS), on="last").highest("num")
    hottest.select("auction", "num", window_start=nw.col("start"), window_end=nw.col("end")).sink("q5")
    return query


query = build()
