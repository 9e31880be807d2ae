"""Q12, windows by the clock: how many bids a bidder makes in every 10 seconds, by when they came to Kafka.

That is the clock which gives the same when bids are read again.
"""

from __future__ import annotations

import narwhals as nw

from queries.nexmark_schema import ARRIVED, TOPIC, arriving_bids
from towpath.query import Query, tumbling

SIZE_MS = 10_000


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Count the bids of each window.

    Args:
        partitions: of the edge and the sink, and so tasks.
        replicas: of the keyed stage, at the start.
        topic: where the events are.
    """
    query = Query("q12", partitions=partitions, description="windows by the clock")
    by_bidder = arriving_bids(query, topic).key_by("bidder").stage("count", parallelism=replicas)
    counted = by_bidder.window(tumbling(SIZE_MS), on=ARRIVED).count("bid_count")
    bounds = {"starttime": nw.col("window_start"), "endtime": nw.col("window_end")}
    counted.select("bidder", "bid_count", **bounds).sink("q12", key="bidder")
    return query


query = build()
