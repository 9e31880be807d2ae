"""Map, map: two stateless stages in a row. The classic ``source → map → map → sink``, for measuring what an edge costs.

The first map converts the price of each bid, the second one sorts the bids into three price bands.
"""

from __future__ import annotations

import narwhals as nw

from queries.nexmark_schema import TOPIC, bids
from towpath.query import Query

MILLI_EURO_PER_DOLLAR = 908
CHEAP_BELOW = 10_000
DEAR_FROM = 1_000_000
"""Band limits in US cents; prices are log-uniform, so that each band holds a third of the bids."""


def build(partitions: int = 8, replicas: int = 1, topic: str = TOPIC) -> Query:
    """Map bids twice.

    Args:
        partitions: of both edges and the sink.
        replicas: of each map, at the start.
        topic: where the events are.
    """
    query = Query("map_map", partitions=partitions, description="two stateless maps")
    price = nw.col("price")
    dear = nw.when(price < DEAR_FROM).then(1).otherwise(2)
    band = nw.when(price < CHEAP_BELOW).then(0).otherwise(dear)
    converted = (
        bids(query, topic)
        .select("auction", "bidder", "price", "date_time")
        .random()
        .stage("convert", parallelism=replicas)
        .with_columns(price_milli=price * MILLI_EURO_PER_DOLLAR)
    )
    banded = converted.random().stage("band", parallelism=replicas).with_columns(price_band=band)
    banded.select("auction", "bidder", "price", "price_milli", "price_band", "date_time").sink("map-map")
    return query


query = build()
