"""Q4, average price for a category: the mean of the highest bids on its auctions, as of now, open auctions included."""

from __future__ import annotations

import polars as pl

from queries.nexmark_schema import TOPIC
from queries.valid_bids import valid_bids
from towpath.query import Query, agg

NEW = pl.col("best_before").is_null()


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Average over auctions.

    Args:
        partitions: of edges and sink, and so tasks.
        replicas: of the keyed stages, at the start.
        topic: where the events are.
    """
    query = Query("q4", partitions=partitions, description="average price for a category")
    bids = valid_bids(query, topic, replicas).stage("best", parallelism=replicas)
    best = bids.key_by("auction").aggregate(previous="_before", best=agg.max("price"), category=agg.max("category"))
    averages = (
        best.key_by("category")
        .stage("average", parallelism=replicas)
        .aggregate(sum=agg.sum(pl.col("best") - pl.col("best_before").fill_null(0)), count=agg.count(where=NEW))
    )
    averages.select("category", "sum", "count", avg_final=pl.col("sum") // pl.col("count")).sink("q4", key="category")
    return query


query = build()
