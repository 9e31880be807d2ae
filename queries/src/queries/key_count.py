"""Key count: how many bids each auction has had so far. The classic ``source → counter → sink``, with state per key."""

from __future__ import annotations

from typing import Literal

from queries.nexmark_schema import TOPIC, bids
from towpath.query import Query


def build(
    emit: Literal["batch", "each"] = "batch", partitions: int = 8, replicas: int = 1, topic: str = TOPIC
) -> Query:
    """Count bids per auction.

    Args:
        emit: ``batch`` writes the latest count once per auction and batch, ``each`` writes one count per bid.
        partitions: of the edge and the sink, and so tasks of the counter.
        replicas: of the counter, at the start.
        topic: where the events are.
    """
    query = Query("key_count", partitions=partitions, description="bids per auction")
    counts = bids(query, topic).key_by("auction").stage("count", parallelism=replicas).count(emit=emit)
    counts.sink("key-count", key="auction")
    return query


query = build()
