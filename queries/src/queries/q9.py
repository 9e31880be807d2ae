"""Q9, winning bids: of each auction the highest bid, the earliest of equal ones, with all of both."""

from __future__ import annotations

import narwhals as nw

from queries.nexmark_schema import TOPIC
from queries.valid_bids import AUCTION, Mode, valid_bids, winning_bids
from towpath.query import Query


def build(mode: Mode = "continuous", partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Keep the highest bid of each auction.

    Args:
        mode: ``continuous`` gives what holds as of now, open auctions and bids at the very end of an auction included;
            ``on_close`` what holds when an auction has ended.
        partitions: of edges and sink, and so tasks.
        replicas: of the keyed stages, at the start.
        topic: where the events are.
    """
    name = "q9" if mode == "continuous" else "q9-on-close"
    query = Query(name, partitions=partitions, description="winning bids")
    if mode == "on_close":
        winners = winning_bids(query, topic, replicas)
    else:
        bids = valid_bids(query, topic, replicas, closed="both").stage("winner", parallelism=replicas)
        order = {"by": ("price", "bid_date_time", "bid_eid"), "descending": (True, False, False)}
        winners = bids.key_by("auction").top(1, **order, rank="place")
    winners.with_columns(id=nw.col("auction")).select(
        *("id", *AUCTION, "auction", "bidder", "price", "bid_date_time", "bid_extra")
    ).sink(name, key="id")
    return query


query = build()
