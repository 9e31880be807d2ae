"""Q14, calculation: bids of a middling price in euro, with the time of day and the number of ``c`` in their padding."""

from __future__ import annotations

import narwhals as nw
import polars as pl

from queries.nexmark_schema import TOPIC, bids
from queries.q1 import in_euro
from towpath.query import Query, expr

LEAST, MOST = 1_000_000, 50_000_000
"""Euro cents, both excluded."""

HOUR_MS = 3_600_000


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Calculate with bids.

    Args:
        partitions: of the sink.
        replicas: of the one stage, at the start.
        topic: where the events are.
    """
    query = Query("q14", partitions=partitions, description="calculation")
    hour = nw.col("date_time") // HOUR_MS % 24
    night = nw.when((hour <= 6) | (hour >= 20)).then(nw.lit("nightTime")).otherwise(nw.lit("otherTime"))
    time_of_day = nw.when(hour.is_between(8, 18)).then(nw.lit("dayTime")).otherwise(night)
    letters = expr(
        polars=pl.col("extra").str.count_matches("c", literal=True).cast(pl.Int64),
        spark="LENGTH(extra) - LENGTH(REPLACE(extra, 'c', ''))",
    )
    bids(query, topic, replicas).with_columns(
        price=in_euro(),
        bid_time_type=time_of_day,
        c_counts=letters,
    ).filter(nw.col("price") > LEAST, nw.col("price") < MOST).select(
        "auction", "bidder", "price", "bid_time_type", "date_time", "extra", "c_counts"
    ).sink("q14")
    return query


query = build()
