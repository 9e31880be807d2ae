"""The queries in Spark SQL, over a view of each kind of event; the services that are checked share nothing with it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

__all__ = ["INPUT_TYPES", "QUERIES", "VIEWS", "Kind", "Query"]

Kind = Literal["rows", "counts", "upserts"]
"""rows: outputs never change, and are compared as multisets. counts: outputs are updates of a running count per key.
upserts: the last output of each key counts."""

INPUT_TYPES = {
    "type": "STRING",
    "eid": "BIGINT",
    "id": "BIGINT",
    "name": "STRING",
    "city": "STRING",
    "state": "STRING",
    "item_name": "STRING",
    "description": "STRING",
    "initial_bid": "BIGINT",
    "reserve": "BIGINT",
    "expires": "BIGINT",
    "seller": "BIGINT",
    "category": "BIGINT",
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

VIEWS = {"persons": "person", "auctions": "auction", "bids": "bid"}
"""View → the type of its events."""

DAY = "CAST(DATE_FROM_UNIX_DATE(INT(date_time DIV 86400000)) AS STRING)"
"""Day of an event in UTC, as text."""

MINUTE = "LPAD(date_time DIV 3600000 % 24, 2, '0') || ':' || LPAD(date_time DIV 60000 % 60, 2, '0')"
"""Minute of an event in UTC, as text."""

_VALID = """
    SELECT b.auction, b.bidder, b.price, b.date_time AS bid_date_time, b.extra AS bid_extra, b.eid, a.item_name,
           a.description, a.initial_bid, a.reserve, a.date_time, a.expires, a.seller, a.category, a.extra
    FROM bids b JOIN auctions a ON b.auction = a.id WHERE b.date_time BETWEEN a.date_time AND a.expires
"""
"""Bids made while their auction was open, both ends included."""

_WINNERS = f"""
    SELECT * FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, bid_date_time, eid) AS place
        FROM ({_VALID}) WHERE bid_date_time < expires)
    WHERE place = 1
"""  # noqa: S608 - a constant
"""Of each auction the highest bid before its end."""

_BANDS = {
    "total": "TRUE",
    "rank1": "price < 10000",
    "rank2": "price >= 10000 AND price < 1000000",
    "rank3": "price >= 1000000",
}
_STATISTICS = ", ".join(
    [f"COUNT_IF({within}) AS {band}_bids" for band, within in _BANDS.items()]
    + [
        f"COUNT(DISTINCT CASE WHEN {within} THEN {of} END) AS {band}_{of}s"
        for of in ("bidder", "auction")
        for band, within in _BANDS.items()
    ]
)
_STATISTICS_SCHEMA = ", ".join(f"{band}_{of} BIGINT" for of in ("bids", "bidders", "auctions") for band in _BANDS)

BID = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING"

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
        keys: Kind upserts: the key's columns.
    """

    name: str
    kind: Kind
    sql: str
    output_schema: str
    keys: tuple[str, ...] = ()

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
        Query(
            "q3",
            "rows",
            """
            SELECT p.name, p.city, p.state, a.id FROM auctions a JOIN persons p ON a.seller = p.id
            WHERE a.category = 10 AND p.state IN ('OR', 'ID', 'CA')
            """,
            "name STRING, city STRING, state STRING, id BIGINT",
        ),
        Query(
            "q4",
            "upserts",
            f"""
            SELECT category, SUM(best) AS sum, COUNT(*) AS count, SUM(best) DIV COUNT(*) AS avg_final
            FROM (SELECT auction, category, MAX(price) AS best FROM ({_VALID}) GROUP BY auction, category)
            GROUP BY category
            """,  # noqa: S608 - a constant
            "category BIGINT, sum BIGINT, count BIGINT, avg_final BIGINT",
            ("category",),
        ),
        Query(
            "q5",
            "rows",
            """
            SELECT auction, num, start AS window_start, start + 10000 AS window_end
            FROM (SELECT *, RANK() OVER (PARTITION BY start ORDER BY num DESC) AS place
                  FROM (SELECT auction, start, COUNT(*) AS num
                        FROM (SELECT auction, EXPLODE(TRANSFORM(SEQUENCE(0, 4), n -> (date_time DIV 2000 - n) * 2000))
                                     AS start FROM bids)
                        GROUP BY auction, start))
            WHERE place = 1
            """,
            "auction BIGINT, num BIGINT, window_start BIGINT, window_end BIGINT",
        ),
        Query(
            "q7",
            "rows",
            """
            SELECT auction, bidder, price, date_time, extra
            FROM (SELECT *, RANK() OVER (PARTITION BY date_time DIV 10000 ORDER BY price DESC) AS place FROM bids)
            WHERE place = 1
            """,
            "auction BIGINT, bidder BIGINT, price BIGINT, date_time BIGINT, extra STRING",
        ),
        Query(
            "q8",
            "rows",
            """
            SELECT DISTINCT p.id, p.name, p.date_time DIV 10000 * 10000 AS starttime
            FROM persons p JOIN auctions a ON p.id = a.seller AND p.date_time DIV 10000 = a.date_time DIV 10000
            """,
            "id BIGINT, name STRING, starttime BIGINT",
        ),
        Query(
            "q9",
            "upserts",
            f"""
            SELECT auction AS id, item_name, description, initial_bid, reserve, date_time, expires, seller, category,
                   extra, auction, bidder, price, bid_date_time, bid_extra
            FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, bid_date_time, eid) AS place
                  FROM ({_VALID}))
            WHERE place = 1
            """,  # noqa: S608 - a constant
            "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, date_time BIGINT, "
            "expires BIGINT, seller BIGINT, category BIGINT, extra STRING, auction BIGINT, bidder BIGINT, "
            "price BIGINT, bid_date_time BIGINT, bid_extra STRING",
            ("id",),
        ),
        Query(
            "q10",
            "rows",
            f"SELECT auction, bidder, price, date_time, extra, {DAY} AS dt, {MINUTE} AS hm FROM bids",  # noqa: S608
            "auction BIGINT, bidder BIGINT, price BIGINT, date_time BIGINT, extra STRING, dt STRING, hm STRING",
        ),
        Query(
            "q11",
            "rows",
            """
            SELECT bidder, COUNT(*) AS bid_count, MIN(date_time) AS starttime, MAX(date_time) + 10000 AS endtime
            FROM (SELECT bidder, date_time,
                         SUM(begins) OVER (PARTITION BY bidder ORDER BY date_time, eid) AS number
                  FROM (SELECT *, IF(date_time - LAG(date_time) OVER (PARTITION BY bidder ORDER BY date_time, eid)
                                     > 10000, 1, 0) AS begins FROM bids))
            GROUP BY bidder, number
            """,
            "bidder BIGINT, bid_count BIGINT, starttime BIGINT, endtime BIGINT",
        ),
        Query(
            "q12",
            "rows",
            """
            SELECT bidder, COUNT(*) AS bid_count, arrived DIV 10000 * 10000 AS starttime,
                   (arrived DIV 10000 + 1) * 10000 AS endtime
            FROM bids GROUP BY bidder, arrived DIV 10000
            """,
            "bidder BIGINT, bid_count BIGINT, starttime BIGINT, endtime BIGINT",
        ),
        Query(
            "q4_on_close",
            "upserts",
            f"""
            SELECT category, SUM(price) AS sum, COUNT(*) AS count, SUM(price) DIV COUNT(*) AS avg_final
            FROM ({_WINNERS}) GROUP BY category
            """,  # noqa: S608 - a constant
            "category BIGINT, sum BIGINT, count BIGINT, avg_final BIGINT",
            ("category",),
        ),
        Query(
            "q6",
            "rows",
            f"""
            SELECT seller, SUM(price) OVER last DIV COUNT(*) OVER last AS avg_price, auction, expires
            FROM ({_WINNERS})
            WINDOW last AS (PARTITION BY seller ORDER BY expires, auction ROWS BETWEEN 9 PRECEDING AND CURRENT ROW)
            """,  # noqa: S608 - a constant
            "seller BIGINT, avg_price BIGINT, auction BIGINT, expires BIGINT",
        ),
        Query(
            "q9_on_close",
            "rows",
            f"""
            SELECT auction AS id, item_name, description, initial_bid, reserve, date_time, expires, seller, category,
                   extra, auction, bidder, price, bid_date_time, bid_extra
            FROM ({_WINNERS})
            """,  # noqa: S608 - a constant
            "id BIGINT, item_name STRING, description STRING, initial_bid BIGINT, reserve BIGINT, date_time BIGINT, "
            "expires BIGINT, seller BIGINT, category BIGINT, extra STRING, auction BIGINT, bidder BIGINT, "
            "price BIGINT, bid_date_time BIGINT, bid_extra STRING",
        ),
        Query(
            "q13",
            "rows",
            "SELECT auction, bidder, price, date_time, CAST(auction % 10000 AS STRING) AS value, sched_ms FROM bids",
            "auction BIGINT, bidder BIGINT, price BIGINT, date_time BIGINT, value STRING, sched_ms BIGINT",
        ),
        Query(
            "q14",
            "rows",
            f"""
            SELECT auction, bidder, euro AS price,
                   CASE WHEN hour BETWEEN 8 AND 18 THEN 'dayTime' WHEN hour <= 6 OR hour >= 20 THEN 'nightTime'
                        ELSE 'otherTime' END AS bid_time_type,
                   date_time, extra, BIGINT(LENGTH(extra) - LENGTH(REPLACE(extra, 'c', ''))) AS c_counts, sched_ms
            FROM (SELECT *, CAST(CAST(price AS DECIMAL(20,0)) * 0.908BD AS {EXACT}) AS euro,
                         date_time DIV 3600000 % 24 AS hour FROM bids)
            WHERE euro > 1000000 AND euro < 50000000
            """,  # noqa: S608 - a constant
            f"auction BIGINT, bidder BIGINT, price {EXACT}, bid_time_type STRING, date_time BIGINT, extra STRING, "
            "c_counts BIGINT, sched_ms BIGINT",
        ),
        Query(
            "q15",
            "upserts",
            f"SELECT {DAY} AS day, {_STATISTICS} FROM bids GROUP BY 1",  # noqa: S608 - constants
            f"day STRING, {_STATISTICS_SCHEMA}",
            ("day",),
        ),
        Query(
            "q16",
            "upserts",
            f"""
            SELECT channel, {DAY} AS day, MAX({MINUTE}) AS minute, {_STATISTICS}
            FROM bids GROUP BY 1, 2
            """,  # noqa: S608 - constants
            f"channel STRING, day STRING, minute STRING, {_STATISTICS_SCHEMA}",
            ("channel", "day"),
        ),
        Query(
            "q17",
            "upserts",
            f"""
            SELECT auction, {DAY} AS day, COUNT(*) AS total_bids, COUNT_IF(price < 10000) AS rank1_bids,
                   COUNT_IF(price >= 10000 AND price < 1000000) AS rank2_bids,
                   COUNT_IF(price >= 1000000) AS rank3_bids, MIN(price) AS min_price, MAX(price) AS max_price,
                   SUM(price) DIV COUNT(*) AS avg_price, SUM(price) AS sum_price
            FROM bids GROUP BY 1, 2
            """,  # noqa: S608 - a constant
            "auction BIGINT, day STRING, total_bids BIGINT, rank1_bids BIGINT, rank2_bids BIGINT, rank3_bids BIGINT, "
            "min_price BIGINT, max_price BIGINT, avg_price BIGINT, sum_price BIGINT",
            ("auction", "day"),
        ),
        Query(
            "q18",
            "upserts",
            """
            SELECT auction, bidder, price, channel, url, date_time, extra
            FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC, eid DESC) AS place
                  FROM bids)
            WHERE place = 1
            """,
            f"{BID}, date_time BIGINT, extra STRING",
            ("bidder", "auction"),
        ),
        Query(
            "q19",
            "upserts",
            """
            SELECT auction, bidder, price, channel, url, date_time, extra, BIGINT(place) AS rank_number
            FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, date_time, eid) AS place
                  FROM bids)
            WHERE place <= 10
            """,
            f"{BID}, date_time BIGINT, extra STRING, rank_number BIGINT",
            ("auction", "rank_number"),
        ),
        Query(
            "q20",
            "rows",
            """
            SELECT b.auction, b.bidder, b.price, b.channel, b.url, b.date_time AS bid_date_time, b.extra AS bid_extra,
                   a.item_name, a.description, a.initial_bid, a.reserve, a.date_time AS auction_date_time, a.expires,
                   a.seller, a.category, a.extra AS auction_extra
            FROM bids b JOIN auctions a ON b.auction = a.id WHERE a.category = 10
            """,
            f"{BID}, bid_date_time BIGINT, bid_extra STRING, item_name STRING, description STRING, "
            "initial_bid BIGINT, reserve BIGINT, auction_date_time BIGINT, expires BIGINT, seller BIGINT, "
            "category BIGINT, auction_extra STRING",
        ),
        Query(
            "q21",
            "rows",
            r"""
            SELECT * FROM (
                SELECT auction, bidder, price, channel,
                       CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
                            WHEN 'baidu' THEN '3' ELSE IF(url RLIKE '(^|&)channel_id=',
                                                          REGEXP_EXTRACT(url, '(?:^|&)channel_id=([^&]*)', 1), NULL)
                       END AS channel_id, sched_ms
                FROM bids)
            WHERE channel_id IS NOT NULL
            """,
            "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, channel_id STRING, sched_ms BIGINT",
        ),
    )
}
