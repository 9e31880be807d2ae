"""The right answers, by a batch computation over the same events; nothing of any measured system is used."""

from __future__ import annotations

import numpy as np
import polars as pl

from bench.peers.data import CHUNK, SEED, drawn_keys
from bench.peers.model import Data, Job
from nexmark import GeneratorConfig, generate

MILLI_EURO_PER_DOLLAR = 908
AUCTION_STEP = 123
FIRST_DIRECTORY = 3

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
}
"""Program → fields of its outputs, as they are read for the comparison."""


def expected(job: Job, events: int) -> pl.DataFrame:
    """All outputs of a stateless job, or the final counts."""
    if job.data is not Data.NEXMARK:
        auctions, counts = np.unique(drawn_keys(job.data, events), return_counts=True)
        return pl.DataFrame({"auction": auctions, "count": counts.astype(np.int64)})
    parts = [_computed(job.program, start, min(CHUNK, events - start)) for start in range(0, events, CHUNK)]
    rows = pl.concat(parts)
    if job.counts:
        return rows.group_by("auction").agg(pl.len().cast(pl.Int64).alias("count"))
    return rows


def comparable(program: str, rows: pl.DataFrame) -> pl.DataFrame:
    """Outputs in a form that is equal when they are: money as integers, rows in order."""
    if program == "q1":
        rows = rows.with_columns((pl.col("price") * 1000).round().cast(pl.Int64))
    return rows.select(*OUTPUT_FIELDS[program]).sort(pl.all())


def _computed(program: str, start: int, count: int) -> pl.DataFrame:
    events = pl.DataFrame(generate(GeneratorConfig(seed=SEED), start, count))
    bids = events.filter(pl.col("type") == "bid")
    if program == "count":
        return bids.select("auction")
    if program == "q1":
        milli_euro = pl.col("price") * MILLI_EURO_PER_DOLLAR
        bids = bids.with_columns((milli_euro.cast(pl.Float64) / 1000).alias("price"))
    elif program == "q2":
        bids = bids.filter(pl.col("auction") % AUCTION_STEP == 0)
    elif program == "q22":
        parts = pl.col("url").str.split("/").list
        bids = bids.with_columns(**{f"dir{n}": parts.get(FIRST_DIRECTORY + n - 1, null_on_oob=True) for n in (1, 2, 3)})
    return bids.select(*OUTPUT_FIELDS[program])
