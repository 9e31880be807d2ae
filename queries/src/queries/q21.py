"""Q21, channel id: bids with the number of their channel, by name or from the URL; those without one are dropped."""

from __future__ import annotations

import polars as pl

from queries.nexmark_schema import TOPIC, bids
from towpath.query import Query, expr

KNOWN = {"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
"""Channel in lower case → its id."""

IN_URL = r"(?:^|&)channel_id=([^&]*)"


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Find channel ids.

    Args:
        partitions: of the sink.
        replicas: of the one stage, at the start.
        topic: where the events are.
    """
    query = Query("q21", partitions=partitions, description="channel id")
    name = pl.col("channel").str.to_lowercase()
    known = [pl.when(name == channel).then(pl.lit(number)) for channel, number in KNOWN.items()]
    cases = " ".join(f"WHEN '{channel}' THEN '{number}'" for channel, number in KNOWN.items())
    channel_id = expr(
        polars=pl.coalesce(*known, pl.col("url").str.extract(IN_URL)),
        spark=f"COALESCE(CASE LOWER(channel) {cases} END, GET(REGEXP_EXTRACT_ALL(url, '{IN_URL}', 1), 0))",
    )
    there = expr(polars=pl.col("channel_id").is_not_null(), spark="channel_id IS NOT NULL")
    found = bids(query, topic, replicas).with_columns(channel_id=channel_id).filter(there)
    found.select("auction", "bidder", "price", "channel", "channel_id").sink("q21")
    return query


query = build()
