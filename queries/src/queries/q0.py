"""Q0, pass through: every bid as it is. Measures what reading, decoding, encoding and writing cost."""

from __future__ import annotations

from queries.nexmark_schema import TOPIC, bids
from towpath.query import Query


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Pass bids through.

    Args:
        partitions: of the sink.
        replicas: of the one stage, at the start.
        topic: where the events are.
    """
    query = Query("q0", partitions=partitions, description="pass through")
    bids(query, topic, replicas).select("auction", "bidder", "price", "date_time", "extra").sink("q0")
    return query


query = build()
