"""The right answers, by a batch computation over the same events; nothing of any measured system is used."""

from __future__ import annotations

import numpy as np
import polars as pl

from bench.peers.data import CHUNK, SEED, drawn_keys
from bench.peers.model import COUNTED, Data, Job
from nexmark import GeneratorConfig, generate

MILLI_EURO_PER_DOLLAR = 908
AUCTION_STEP = 123
FIRST_DIRECTORY = 3
WINDOW = "window_start"
WINDOW_MS, LAG_MS = 10_000, 4_000
CATEGORY, STATES = 10, ["OR", "ID", "CA"]

OUTPUT_FIELDS: dict[str, dict[str, pl.DataType]] = {
    "q0": {
        "auction": pl.Int64(),
        "bidder": pl.Int64(),
        "price": pl.Int64(),
        "date_time": pl.Int64(),
        "extra": pl.String(),
    },
    "q1": {
        "auction": pl.Int64(),
        "bidder": pl.Int64(),
        "price": pl.Float64(),
        "date_time": pl.Int64(),
        "extra": pl.String(),
    },
    "q2": {"auction": pl.Int64(), "price": pl.Int64()},
    "q22": {
        "auction": pl.Int64(),
        "bidder": pl.Int64(),
        "price": pl.Int64(),
        "channel": pl.String(),
        "dir1": pl.String(),
        "dir2": pl.String(),
        "dir3": pl.String(),
    },
    "count": {"auction": pl.Int64(), "count": pl.Int64()},
    "tumbling": {"auction": pl.Int64(), "window_start": pl.Int64(), "count": pl.Int64()},
    "q3": {"name": pl.String(), "city": pl.String(), "state": pl.String(), "id": pl.Int64()},
}
"""Program → fields of its outputs, as they are read for the comparison."""


def expected(job: Job, events: int) -> pl.DataFrame:
    """All outputs of a stateless job, or the final counts.

    Windows: those that end so long before the last event that every system that waits no longer than
    :data:`LAG_MS` for late events has closed them.
    """
    if job.data is not Data.NEXMARK:
        auctions, counts = np.unique(drawn_keys(job.data, events), return_counts=True)
        return pl.DataFrame({"auction": auctions, "count": counts.astype(np.int64)})
    parts = [_computed(job.program, start, min(CHUNK, events - start)) for start in range(0, events, CHUNK)]
    rows = pl.concat(parts)
    if job.program == "q3":
        return _joined(rows)
    if job.program == "tumbling":
        ended = rows["date_time"].max() - LAG_MS - WINDOW_MS  # type: ignore[operator]
        start = pl.col("date_time") // WINDOW_MS * WINDOW_MS
        rows = rows.select("auction", start.alias(WINDOW)).filter(pl.col(WINDOW) + WINDOW_MS <= ended)
    if job.counts:
        return rows.group_by(COUNTED[job.program]).agg(pl.len().cast(pl.Int64).alias("count"))
    return rows


def _joined(rows: pl.DataFrame) -> pl.DataFrame:
    sellers = rows.filter(pl.col("type") == "person", pl.col("state").is_in(STATES))
    listed = rows.filter(pl.col("type") == "auction").select("id", "seller")
    sellers = sellers.select("name", "city", "state", seller=pl.col("id"))
    return listed.join(sellers, on="seller").select(*OUTPUT_FIELDS["q3"])


def comparable(program: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Outputs in a form that is equal when they are: money as integers, rows in order."""
    if program == "q1":
        rows = rows.with_columns((pl.col("price") * 1000).round().cast(pl.Int64))
    return rows.select(*OUTPUT_FIELDS[program]).sort(pl.all())


def _computed(program: str, start: int, count: int) -> pl.DataFrame:
    events = pl.DataFrame(generate(GeneratorConfig(seed=SEED), start, count))
    if program == "q3":
        listed = (pl.col("type") == "auction") & (pl.col("category") == CATEGORY)
        kept = events.filter(listed | (pl.col("type") == "person"))
        return kept.select("type", "id", "seller", "name", "city", "state")
    bids = events.filter(pl.col("type") == "bid")
    if program == "count":
        return bids.select("auction")
    if program == "tumbling":
        return bids.select("auction", "date_time")
    if program == "q1":
        milli_euro = pl.col("price") * MILLI_EURO_PER_DOLLAR
        bids = bids.with_columns((milli_euro.cast(pl.Float64) / 1000).alias("price"))
    elif program == "q2":
        bids = bids.filter(pl.col("auction") % AUCTION_STEP == 0)
    elif program == "q22":
        parts = pl.col("url").str.split("/").list
        bids = bids.with_columns(**{f"dir{n}": parts.get(FIRST_DIRECTORY + n - 1, null_on_oob=True) for n in (1, 2, 3)})
    return bids.select(*OUTPUT_FIELDS[program])
