"""Q7, highest bid: of every 10 seconds the bids with the highest price."""

from __future__ import annotations

import narwhals as nw

from queries.nexmark_schema import EVENT_TIME, TOPIC, bids
from towpath.query import Query, tumbling

SIZE_MS = 10_000
SHARES = 64
"""Bids are first compared among those of an equal share of the auctions, so that one task does not get all."""


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Find the highest bids.

    Args:
        partitions: of edges and sink, and so tasks.
        replicas: of the keyed stages, at the start.
        topic: where the events are.
    """
    query = Query("q7", partitions=partitions, description="highest bid")
    columns = ("auction", "bidder", "price", "date_time", "extra")
    shared = bids(query, topic).select(*columns, share=nw.col("auction") % SHARES)
    window = tumbling(SIZE_MS)
    of_share = (
        shared.key_by("share").stage("share", parallelism=replicas).window(window, on=EVENT_TIME).highest("price")
    )
    together = of_share.select(*columns, start=nw.col("window_start")).key_by("start").stage("highest")
    together.window(window, on=EVENT_TIME).highest("price").select(*columns).sink("q7")
    return query


query = build()
