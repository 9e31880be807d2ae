"""Q2, selection: the bids on every 123rd auction, less than one bid in a hundred."""

from __future__ import annotations

import narwhals as nw

from queries.nexmark_schema import TOPIC, bids
from towpath.query import Query

AUCTION_STEP = 123


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Select bids.

    Args:
        partitions: of the sink.
        replicas: of the one stage, at the start.
        topic: where the events are.
    """
    query = Query("q2", partitions=partitions, description="selection")
    selected = bids(query, topic, replicas).filter(nw.col("auction") % AUCTION_STEP == 0)
    selected.select("auction", "price").sink("q2")
    return query


query = build()
