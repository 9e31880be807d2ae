"""Q14, calculation: bids of a middling price in euro, with the time of day and the number of ``c`` in their padding."""

from __future__ import annotations

import polars as pl

from queries.nexmark_schema import TOPIC, bids
from queries.q1 import EURO_PER_DOLLAR, PRICE
from towpath.query import Query

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
    price = (pl.col("price").cast(PRICE) * pl.lit(EURO_PER_DOLLAR, pl.Decimal(4, 3))).cast(PRICE)
    hour = pl.col("date_time") // HOUR_MS % 24
    time_of_day = (
        pl.when(hour.is_between(8, 18))
        .then(pl.lit("dayTime"))
        .when((hour <= 6) | (hour >= 20))
        .then(pl.lit("nightTime"))
        .otherwise(pl.lit("otherTime"))
    )
    bids(query, topic, replicas).with_columns(
        price=price,
        bid_time_type=time_of_day,
        c_counts=pl.col("extra").str.count_matches("c", literal=True).cast(pl.Int64),
    ).filter(pl.col("price") > LEAST, pl.col("price") < MOST).select(
        "auction", "bidder", "price", "bid_time_type", "date_time", "extra", "c_counts"
    ).sink("q14")
    return query


query = build()
