"""Q4, average price for a category: the mean of the highest bids on its auctions, as of now or of those that ended."""

from __future__ import annotations

import narwhals as nw

from queries.nexmark_schema import TOPIC
from queries.valid_bids import Mode, valid_bids, winning_bids
from towpath.query import Query, agg

NEW = nw.col("best_before").is_null()


def build(mode: Mode = "continuous", partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Average over auctions.

    Args:
        mode: ``continuous`` gives what holds as of now, open auctions and bids at the very end of an auction included;
            ``on_close`` what holds when an auction has ended.
        partitions: of edges and sink, and so tasks.
        replicas: of the keyed stages, at the start.
        topic: where the events are.
    """
    name = "q4" if mode == "continuous" else "q4-on-close"
    query = Query(name, partitions=partitions, description="average price for a category")
    if mode == "on_close":
        best = winning_bids(query, topic, replicas)
        total, number = agg.sum("price"), agg.count()
    else:
        bids = valid_bids(query, topic, replicas, closed="both").stage("best", parallelism=replicas).key_by("auction")
        best = bids.aggregate(previous="_before", best=agg.max("price"), category=agg.max("category"))
        total, number = agg.sum(nw.col("best") - nw.col("best_before").fill_null(0)), agg.count(where=NEW)
    averages = best.key_by("category").stage("average", parallelism=replicas).aggregate(sum=total, count=number)
    averages.select("category", "sum", "count", avg_final=nw.col("sum") // nw.col("count")).sink(name, key="category")
    return query


query = build()
