"""Rows of two streams that meet, as a join sees them."""

from __future__ import annotations

import polars as pl

INPUT = {
    "k": pl.Int64,
    "join.right": pl.Boolean,
    "join.time": pl.Int64,
    "l": pl.Int64,
    "right.r": pl.Int64,
    "__partition": pl.Int32,
}


def frame(rows, watermark=None):
    """Rows: key, whether it is of the right side, event time, number."""
    full = [
        (key, right, time, None if right else number, number if right else None, 0) for key, right, time, number in rows
    ]
    found = pl.DataFrame(full, schema=INPUT, orient="row")
    return found if watermark is None else found.with_columns(pl.lit(watermark, pl.Int64).alias("__watermark"))
