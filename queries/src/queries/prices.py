"""The three bands of prices by which Q15, Q16 and Q17 tell bids apart."""

from __future__ import annotations

import narwhals as nw

LOW, HIGH = 10_000, 1_000_000
"""Limits in US cents; prices are log-uniform, so that each band holds a third of the bids."""

RANKS = {
    "rank1": nw.col("price") < LOW,
    "rank2": (nw.col("price") >= LOW) & (nw.col("price") < HIGH),
    "rank3": nw.col("price") >= HIGH,
}
"""Band → whether a bid is in it."""
