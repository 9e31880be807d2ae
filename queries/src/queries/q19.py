"""Q19, auction top 10: of each auction the ten highest bids, with their rank."""

from __future__ import annotations

from queries.nexmark_schema import TOPIC, bids
from towpath.query import Query

PLACES = 10


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Rank bids.

    Args:
        partitions: of the edge and the sink, and so tasks.
        replicas: of the keyed stage, at the start.
        topic: where the events are.
    """
    query = Query("q19", partitions=partitions, description="auction top 10")
    columns = ("auction", "bidder", "price", "channel", "url", "date_time", "extra")
    keyed = bids(query, topic).select(*columns, "eid").key_by("auction").stage("top", parallelism=replicas)
    ranked = keyed.top(PLACES, by=("price", "date_time", "eid"), descending=(True, False, False))
    ranked.select(*columns, "rank_number").sink("q19", key=("auction", "rank_number"))
    return query


query = build()
