"""The queries in Spark SQL, over a view `bids`; nothing here is shared with the services that are checked."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["BIDS_SQL", "INPUT_TYPES", "QUERIES", "Kind", "Query"]

Kind = Literal["rows", "counts"]
"""rows: each bid gives at most one output, and outputs are compared as multisets. counts: outputs are updates
of a running count per key."""

INPUT_TYPES = {
    "type": "STRING",
    "auction": "BIGINT",
    "bidder": "BIGINT",
    "price": "BIGINT",
    "channel": "STRING",
    "url": "STRING",
    "date_time": "BIGINT",
    "extra": "STRING",
    "sched_ms": "BIGINT",
}
"""Fields of an event's JSON that queries use."""

BIDS_SQL = "SELECT * FROM events WHERE type = 'bid'"

EXACT = "DECIMAL(38,9)"
"""Type in which money with fractions is compared: wide enough that no digit of an output is rounded away."""


@dataclass(frozen=True, slots=True)
class Query:
    """A query as the oracle sees it.

    Attributes:
        name: Its name.
        kind: How outputs are compared.
        sql: Expected rows (kind rows), or `auction`, `n` = expected final count (kind counts).
        output_schema: Columns read from the JSON of an output, in the order of `sql`.
    """

    name: str
    kind: Kind
    sql: str
    output_schema: str

    @property
    def input_schema(self) -> str:
        """Schema of what the query needs of an event's JSON: the less is parsed, the better."""
        used = [name for name in INPUT_TYPES if name == "type" or re.search(rf"\b{name}\b", self.sql)]
        return ", ".join(f"{name} {INPUT_TYPES[name]}" for name in used)


QUERIES: dict[str, Query] = {
    query.name: query
    for query in (
        Query(
            "map_map",
            "rows",
            """
            SELECT auction, bidder, price, price * 908 AS price_milli,
                   CASE WHEN price < 10000 THEN 0 WHEN price < 1000000 THEN 1 ELSE 2 END AS price_band,
                   date_time, sched_ms
            FROM bids
            """,
            "auction BIGINT, bidder BIGINT, price BIGINT, price_milli BIGINT, price_band INT, "
            "date_time BIGINT, sched_ms BIGINT",
        ),
        Query(
            "key_count",
            "counts",
            "SELECT auction, COUNT(*) AS n FROM bids WHERE auction IS NOT NULL GROUP BY auction",
            "auction BIGINT, count BIGINT, events BIGINT",
        ),
        Query(
            "q0",
            "rows",
            "SELECT auction, bidder, price, date_time, extra, sched_ms FROM bids",
            "auction BIGINT, bidder BIGINT, price BIGINT, date_time BIGINT, extra STRING, sched_ms BIGINT",
        ),
        Query(
            "q1",
            "rows",
            f"""
            SELECT auction, bidder, CAST(CAST(price AS DECIMAL(20,0)) * 0.908BD AS {EXACT}) AS price,
                   date_time, extra, sched_ms
            FROM bids
            """,  # noqa: S608 - a constant
            f"auction BIGINT, bidder BIGINT, price {EXACT}, date_time BIGINT, extra STRING, sched_ms BIGINT",
        ),
        Query(
            "q2",
            "rows",
            "SELECT auction, price, sched_ms FROM bids WHERE auction % 123 = 0",
            "auction BIGINT, price BIGINT, sched_ms BIGINT",
        ),
        Query(
            "q22",
            "rows",
            """
            SELECT auction, bidder, price, channel, GET(SPLIT(url, '/'), 3) AS dir1,
                   GET(SPLIT(url, '/'), 4) AS dir2, GET(SPLIT(url, '/'), 5) AS dir3, sched_ms
            FROM bids
            """,
            "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, "
            "dir1 STRING, dir2 STRING, dir3 STRING, sched_ms BIGINT",
        ),
    )
}
