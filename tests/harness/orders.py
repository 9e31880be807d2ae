"""Orders per customer, from Avro to Avro, under a name of the test's choice."""

from __future__ import annotations

import polars as pl

from towpath.query import Query, avro

SCHEMA = {"customer": pl.String, "amount": pl.Decimal(12, 2), "priority": pl.Int32}


def build(app: str, partitions: int = 4) -> Query:
    """Count orders per customer: reads ``<app>-orders``, writes ``<app>-counts``."""
    query = Query(app, partitions=partitions)
    orders = query.source(
        f"{app}-orders", schema=SCHEMA, format=avro(defaults={"priority": 5}), emit_time="placed"
    ).filter(pl.col("amount") > 0, pl.col("priority") == 5)
    counts = orders.key_by("customer").stage("count").count(emit="each")
    counts.sink(f"{app}-counts", key="customer", format=avro(record="shop.Count"))
    return query
