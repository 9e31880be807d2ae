"""Q22, URL directories: the three directories in the URL of every bid, as columns."""

from __future__ import annotations

import polars as pl

from queries.nexmark_schema import TOPIC, bids
from towpath.query import Query

FIRST_DIRECTORY = 3
"""``https://host/dir1/dir2/dir3/…`` split at ``/``: scheme, nothing, host, then the directories."""


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Split the URLs of bids.

    Args:
        partitions: of the sink.
        replicas: of the one stage, at the start.
        topic: where the events are.
    """
    query = Query("q22", partitions=partitions, description="URL directories")
    parts = pl.col("url").str.split("/").list
    directories = {f"dir{n}": parts.get(FIRST_DIRECTORY + n - 1, null_on_oob=True) for n in (1, 2, 3)}
    bids(query, topic, replicas).select("auction", "bidder", "price", "channel", **directories).sink("q22")
    return query


query = build()
