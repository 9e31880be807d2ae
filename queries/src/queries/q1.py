"""Q1, currency conversion: every bid with its price in euro cents, exact to the thousandth of a cent."""

from __future__ import annotations

from decimal import Decimal

import polars as pl

from queries.nexmark_schema import TOPIC, bids
from towpath.query import Expression, Query, expr

EURO_PER_DOLLAR = Decimal("0.908")
PRICE = pl.Decimal(23, 3)


def in_euro() -> Expression:
    """The price of a bid in euro cents."""
    return expr(
        polars=(pl.col("price").cast(PRICE) * pl.lit(EURO_PER_DOLLAR, pl.Decimal(4, 3))).cast(PRICE),
        spark=f"CAST(CAST(price AS DECIMAL(20, 0)) * {EURO_PER_DOLLAR}BD AS DECIMAL(23, 3))",
    )


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Convert the prices of bids.

    Args:
        partitions: of the sink.
        replicas: of the one stage, at the start.
        topic: where the events are.
    """
    query = Query("q1", partitions=partitions, description="currency conversion")
    bids(query, topic, replicas).select("auction", "bidder", in_euro(), "date_time", "extra").sink("q1")
    return query


query = build()
