"""The key count under a name of the test's choice, so that many tests share one broker."""

from __future__ import annotations

from typing import Literal

from queries.nexmark_schema import bids
from towpath.query import Query


def build(app: str, emit: Literal["batch", "each"] = "each", partitions: int = 4) -> Query:
    """Count bids per auction: reads ``<app>-events``, writes ``<app>-counts``."""
    query = Query(app, partitions=partitions)
    counts = bids(query, f"{app}-events").key_by("auction").stage("count").count(emit=emit)
    counts.sink(f"{app}-counts", key="auction")
    return query
