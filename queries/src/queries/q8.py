"""Q8, monitor new users: who opened an auction in the 10 seconds in which they registered."""

from __future__ import annotations

import narwhals as nw

from queries.nexmark_schema import EVENT_TIME, TOPIC, events
from towpath.query import Query, agg, tumbling

SIZE_MS = 10_000


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Find new sellers.

    Args:
        partitions: of edges and sink, and so tasks.
        replicas: of the keyed stages, at the start.
        topic: where the events are.
    """
    query = Query("q8", partitions=partitions, description="monitor new users")
    all_events = events(query, topic)
    persons = all_events.filter(nw.col("type") == "person").select("id", "name", EVENT_TIME)
    sellers = all_events.filter(nw.col("type") == "auction").select(
        EVENT_TIME, id=nw.col("seller"), name=nw.lit(None, nw.String)
    )
    both = persons.union(sellers.select("id", "name", EVENT_TIME)).key_by("id").stage("join", parallelism=replicas)
    found = both.window(tumbling(SIZE_MS), on=EVENT_TIME).aggregate(
        name=agg.max("name"), auctions=agg.count(where=nw.col("name").is_null())
    )
    new = found.filter(~nw.col("name").is_null(), nw.col("auctions") > 0)
    new.select("id", "name", starttime=nw.col("window_start")).sink("q8")
    return query


query = build()
