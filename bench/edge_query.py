"""For :mod:`bench.edges`: a source, and behind it two stages that read rows from inner edges and keep no state."""

from __future__ import annotations

import polars as pl

from queries.nexmark_schema import EVENT
from towpath.query import Query

AUCTION_STEP = 10_000
"""Of the last filter: hardly anything is written as JSON."""


def build(app: str, source: str, sink: str, partitions: int = 8) -> Query:
    """Bids with four whole numbers each; those of few auctions come out.

    Args:
        app: name of the application.
        source: topic of the events.
        sink: topic of the outputs.
        partitions: of the sink.
    """
    query = Query(app, partitions=partitions)
    bids = query.source(source, schema=EVENT).filter(pl.col("type") == "bid")
    numbers = bids.select("auction", "bidder", "price", "date_time")
    dear = numbers.stage("first").filter(pl.col("price") >= 0)
    dear.stage("second").filter(pl.col("auction") % AUCTION_STEP == 0).sink(sink)
    return query
