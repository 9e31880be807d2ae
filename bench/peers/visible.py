"""From what was sent, and what became visible when, to the latency of every event: pure."""

from __future__ import annotations

import numpy as np
import polars as pl
from numpy.typing import NDArray

PERCENTILES = {"p50_ms": 50.0, "p99_ms": 99.0, "p999_ms": 99.9, "max_ms": 100.0}
_MS = 1000.0


def latencies_s(keys: NDArray[np.int64], begin_s: float, rate: float, outputs: pl.DataFrame) -> NDArray[np.float64]:
    """Of each event, the time from when it was meant to be sent until a count that includes it was visible.

    The n-th event of a key is included in every count of that key from n on, whether the system gives a count for
    each event or only the latest; events of a key are sent in one partition, so that their order is kept.

    Args:
        keys: of the events, in the order of sending.
        begin_s: when the first was meant to be sent.
        rate: events per second.
        outputs: ``auction``, ``count``, ``visible_s``.

    Returns:
        Seconds; infinite where no such count was seen.
    """
    events = pl.DataFrame({"auction": keys}).with_columns(
        count=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("auction"),
        sent_s=begin_s + pl.int_range(pl.len(), dtype=pl.Int64) / rate,
        number=pl.int_range(pl.len(), dtype=pl.Int64),
    )
    earliest = (
        outputs.sort("auction", "count")
        .with_columns(pl.col("visible_s").cum_min(reverse=True).over("auction"))
        .group_by("auction", "count", maintain_order=True)
        .agg(pl.col("visible_s").min())
    )
    found = (
        events.sort("count")
        .join_asof(earliest.sort("count"), on="count", by="auction", strategy="forward", check_sortedness=False)
        .sort("number")
    )
    return found.select((pl.col("visible_s") - pl.col("sent_s")).fill_null(float("inf"))).to_series().to_numpy()


def percentiles_ms(latencies: NDArray[np.float64]) -> dict[str, float]:
    """Name → milliseconds."""
    return {name: round(float(np.percentile(latencies, at)) * _MS, 2) for name, at in PERCENTILES.items()}
