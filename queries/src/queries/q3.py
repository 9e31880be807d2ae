"""Q3, local item suggestion: auctions of category 10 by sellers in Oregon, Idaho or California, with the seller.

Every person goes to the join, not only those of the three states, so that no auction waits longer than for its seller.
"""

from __future__ import annotations

import narwhals as nw

from queries.nexmark_schema import TOPIC, events
from towpath.query import Query

CATEGORY = 10
STATES = ["OR", "ID", "CA"]


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Join auctions with their sellers.

    Args:
        partitions: of the edge and the sink, and so tasks.
        replicas: of the keyed stage, at the start.
        topic: where the events are.
    """
    query = Query("q3", partitions=partitions, description="local item suggestion")
    all_events = events(query, topic)
    persons = all_events.filter(nw.col("type") == "person")
    listed = all_events.filter(nw.col("type") == "auction", nw.col("category") == CATEGORY).select("id", "seller")
    joined = listed.key_by("seller").stage("join", parallelism=replicas)
    found = joined.enrich(persons.key_by("id"), columns=("name", "city", "state"))
    found.filter(nw.col("state").is_in(STATES)).select("name", "city", "state", "id").sink("q3")
    return query


query = build()
