"""The three bands of prices by which Q15, Q16 and Q17 tell bids apart."""

from __future__ import annotations

import polars as pl

LOW, HIGH = 10_000, 1_000_000
"""Limits in US cents; prices are log-uniform, so that each band holds a third of the bids."""

RANKS = {
    "rank1": pl.col("price") < LOW,
    "rank2": (pl.col("price") >= LOW) & (pl.col("price") < HIGH),
    "rank3": pl.col("price") >= HIGH,
}
"""Band → whether a bid is in it."""
