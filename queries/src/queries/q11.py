"""Q11, user sessions: how many bids a bidder makes without a pause of more than 10 seconds."""

from __future__ import annotations

import narwhals as nw

from queries.nexmark_schema import EVENT_TIME, TOPIC, bids
from towpath.query import Query, session

GAP_MS = 10_000


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Count the bids of each session.

    Args:
        partitions: of the edge and the sink, and so tasks.
        replicas: of the keyed stage, at the start.
        topic: where the events are.
    """
    query = Query("q11", partitions=partitions, description="user sessions")
    by_bidder = bids(query, topic).key_by("bidder").stage("sessions", parallelism=replicas)
    counted = by_bidder.window(session(GAP_MS), on=EVENT_TIME).count("bid_count")
    bounds = {"starttime": nw.col("window_start"), "endtime": nw.col("window_end")}
    counted.select("bidder", "bid_count", **bounds).sink("q11", key="bidder")
    return query


query = build()
