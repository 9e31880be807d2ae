"""Q22, URL directories: the three directories in the URL of every bid, as columns."""

from __future__ import annotations

import polars as pl

from queries.nexmark_schema import TOPIC, bids
from towpath.query import Expression, Query, expr

FIRST_DIRECTORY = 3
"""``https://host/dir1/dir2/dir3/…`` split at ``/``: scheme, nothing, host, then the directories."""


SLASHED = expr(polars=pl.col("url").str.split("/"), spark="SPLIT(url, '/')")
"""What stands between the slashes of the URL."""


def directory(place: int) -> Expression:
    """What stands at a place between the slashes; null where the URL is shorter."""
    return expr(polars=pl.col("slashed").list.get(place, null_on_oob=True), spark=f"GET(slashed, {place})")


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Split the URLs of bids.

    Args:
        partitions: of the sink.
        replicas: of the one stage, at the start.
        topic: where the events are.
    """
    query = Query("q22", partitions=partitions, description="URL directories")
    directories = {f"dir{n}": directory(FIRST_DIRECTORY + n - 1) for n in (1, 2, 3)}
    slashed = bids(query, topic, replicas).with_columns(slashed=SLASHED)
    slashed.select("auction", "bidder", "price", "channel", **directories).sink("q22")
    return query


query = build()
