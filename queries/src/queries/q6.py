"""Q6, average selling price by seller: the mean of the winning bids on a seller's last ten auctions that ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from queries.nexmark_schema import TOPIC
from queries.valid_bids import winning_bids
from towpath.query import Query, until

LAST = 10
SCHEMA = {"seller": pl.Int64, "avg_price": pl.Int64, "auction": pl.Int64, "expires": pl.Int64}


def average(row: dict[str, Any], state: Any) -> Iterable[dict[str, Any]]:
    """The mean of the last prices, this one included."""
    prices = [*state.get([]), row["price"]][-LAST:]
    state.set(prices)
    yield {name: row[name] for name in ("seller", "auction", "expires")} | {"avg_price": sum(prices) // len(prices)}


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Average over the last auctions.

    Args:
        partitions: of edges and sink, and so tasks.
        replicas: of the keyed stages, at the start.
        topic: where the events are.
    """
    query = Query("q6", partitions=partitions, description="average selling price by seller")
    winners = winning_bids(query, topic, replicas).select("seller", "auction", "price", "expires")
    # Auctions of a seller come from many tasks: in the order of their ends, and of their numbers where those are equal.
    ordered = winners.key_by("seller").stage("order", parallelism=replicas).window(until("expires"))
    in_turn = ordered.top(1_000, by="auction", descending=False, rank="turn").stage("average", parallelism=replicas)
    in_turn.key_by("seller").process(average, schema=SCHEMA, state=list[int]).sink("q6", key="seller")
    return query


query = build()
