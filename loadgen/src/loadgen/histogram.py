"""Exact latency statistics from counts per millisecond.

Latencies are whole milliseconds (a broker's stamp has no finer unit), so counting rows per value loses nothing:
counts of two parts of a topic add up to those of the whole, and percentiles of any second, or of the whole
run, come out exact. That is why the latency job needs no state store, no watermark and no estimate.

A *counts table* is a pandas frame with the columns `COUNT_COLUMNS`: topic; kind of latency; second (of append,
since the Unix epoch); value_ms (null: the record carries no intended time); rows; events (inputs behind the rows).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

__all__ = ["COUNT_COLUMNS", "KINDS", "STAT_COLUMNS", "empty_counts", "merge_counts", "quantiles", "statistics"]

COUNT_COLUMNS = ["topic", "kind", "second", "value_ms", "rows", "events"]
STAT_COLUMNS = ["rows", "events", "p50_ms", "p95_ms", "p99_ms", "max_ms"]
KINDS = ("append", "append_newest", "visible", "load")
"""append: sink append time − oldest intended time of the output. append_newest: the same, newest intended time.
visible: time at which a read_committed reader had the record − oldest intended time. load: append time of the
*input* record − its intended time, the generator's own share."""

_QUANTILES = (0.5, 0.95, 0.99, 1.0)


def empty_counts() -> pd.DataFrame:
    """A counts table without rows."""
    types = {
        "topic": "str",
        "kind": "str",
        "second": "int64",
        "value_ms": "float64",
        "rows": "int64",
        "events": "int64",
    }
    return pd.DataFrame({name: pd.Series(dtype=types[name]) for name in COUNT_COLUMNS})


def merge_counts(tables: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """Adds counts tables up; the result has one row per (topic, kind, second, value_ms), sorted."""
    present = [table[COUNT_COLUMNS] for table in tables if len(table)]
    if not present:
        return empty_counts()
    together = pd.concat(present, ignore_index=True).astype({"value_ms": "float64"})
    keys = COUNT_COLUMNS[:4]
    return together.groupby(keys, dropna=False, sort=True, as_index=False)[["rows", "events"]].sum()


def quantiles(values: NDArray[np.float64], counts: NDArray[np.int64], at: Sequence[float]) -> list[float]:
    """Nearest-rank quantiles of values that occur several times: the smallest with at least q·N at or below it.

    Args:
        values: Distinct values, ascending.
        counts: How often each occurs.
        at: The q, each in (0, 1].

    Returns:
        One value per q; NaN without values.
    """
    total = int(counts.sum())
    if not total:
        return [float("nan")] * len(at)
    reached = np.cumsum(counts)
    ranks = np.ceil(np.asarray(at) * total - 1e-9)
    return [float(v) for v in values[np.searchsorted(reached, np.maximum(ranks, 1))]]


def statistics(counts: pd.DataFrame, by: Sequence[str] = ("topic", "kind", "second")) -> pd.DataFrame:
    """Rows, events and exact percentiles per group.

    Args:
        counts: A merged counts table.
        by: Columns that make a group, from topic, kind and second.

    Returns:
        The `by` columns, then `STAT_COLUMNS`, sorted by group. Percentiles are NaN where no record carries an
        intended time.
    """
    rows = []
    by = list(by)
    for key, group in counts.groupby(by, sort=True):
        known = group[group["value_ms"].notna()].groupby("value_ms", sort=True)["rows"].sum()
        found = quantiles(known.index.to_numpy(dtype=np.float64), known.to_numpy(dtype=np.int64), _QUANTILES)
        rows.append((*key, int(group["rows"].sum()), int(group["events"].sum()), *found))
    return pd.DataFrame(rows, columns=[*by, *STAT_COLUMNS])
