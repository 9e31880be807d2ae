"""Q18, last bid: of each bidder on each auction the newest bid."""

from __future__ import annotations

from queries.nexmark_schema import TOPIC, bids
from towpath.query import Query


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Keep the newest bids.

    Args:
        partitions: of the edge and the sink, and so tasks.
        replicas: of the keyed stage, at the start.
        topic: where the events are.
    """
    query = Query("q18", partitions=partitions, description="last bid")
    columns = ("auction", "bidder", "price", "channel", "url", "date_time", "extra")
    keyed = bids(query, topic).select(*columns, "eid").key_by("bidder", "auction")
    newest = keyed.stage("newest", parallelism=replicas).latest(by=("date_time", "eid"))
    newest.select(*columns).sink("q18", key=("bidder", "auction"))
    return query


query = build()
