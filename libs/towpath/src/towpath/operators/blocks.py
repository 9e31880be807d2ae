"""Rows that lie in blocks, one for each task."""

from __future__ import annotations

import numpy as np
import polars as pl

from towpath.query.plan import PARTITION


def blocks(rows: pl.DataFrame) -> list[tuple[int, int]]:
    """Partition and number of rows of each block, in order; the rows are sorted by ``__partition``."""
    partitions, counts = np.unique(rows.get_column(PARTITION).to_numpy(), return_counts=True)
    return list(zip(partitions.tolist(), counts.tolist(), strict=True))
