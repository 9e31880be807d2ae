"""Q17, auction statistics: by day, number of bids in all and by price, and least, greatest, mean and total price."""

from __future__ import annotations

import narwhals as nw

from queries.nexmark_schema import TOPIC, bids
from queries.prices import RANKS
from queries.times import day
from towpath.query import Query, agg


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Aggregate the bids of each auction and day.

    Args:
        partitions: of the edge and the sink, and so tasks.
        replicas: of the keyed stage, at the start.
        topic: where the events are.
    """
    query = Query("q17", partitions=partitions, description="auction statistics")
    by_day = bids(query, topic).with_columns(day=day()).key_by("auction", "day")
    statistics = by_day.stage("statistics", parallelism=replicas).aggregate(
        total_bids=agg.count(),
        **{f"{name}_bids": agg.count(where=within) for name, within in RANKS.items()},
        min_price=agg.min("price"),
        max_price=agg.max("price"),
        sum_price=agg.sum("price"),
    )
    mean = nw.col("sum_price") // nw.col("total_bids")
    statistics.with_columns(avg_price=mean).select(
        *("auction", "day", "total_bids", *(f"{name}_bids" for name in RANKS)),
        *("min_price", "max_price", "avg_price", "sum_price"),
    ).sink("q17", key=("auction", "day"))
    return query


query = build()
