"""Q13, bounded side input join: every bid with the value that a fixed table has for its auction."""

from __future__ import annotations

import narwhals as nw
import polars as pl

from queries.nexmark_schema import TOPIC, bids
from towpath.query import Query

ROWS = 10_000


def side_input() -> pl.DataFrame:
    """Key i has the value "i"."""
    return pl.select(side_key=pl.int_range(ROWS, dtype=pl.Int64)).with_columns(value=pl.col("side_key").cast(pl.String))


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Join bids with the table.

    Args:
        partitions: of the sink.
        replicas: of the one stage, at the start.
        topic: where the events are.
    """
    query = Query("q13", partitions=partitions, description="bounded side input join")
    keyed = bids(query, topic, replicas).with_columns(side_key=nw.col("auction") % ROWS)
    joined = keyed.lookup(side_input(), on="side_key")
    joined.select("auction", "bidder", "price", "date_time", "value").sink("q13")
    return query


query = build()
