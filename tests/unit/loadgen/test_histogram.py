"""Counts add up, and percentiles of the sum are exact."""

from __future__ import annotations

import numpy as np
import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from loadgen.histogram import COUNT_COLUMNS, empty_counts, merge_counts, quantiles, statistics


def counts(rows: list[tuple[str, str, int, float | None, int, int]]) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=COUNT_COLUMNS)


@given(st.lists(st.integers(-5, 60), min_size=1, max_size=200), st.integers(1, 5))
def test_percentiles_of_merged_parts_are_those_of_all_rows(values: list[int], parts: int) -> None:
    tables = [counts([("t", "append", 7, float(v), 1, 2) for v in values[part::parts]]) for part in range(parts)]
    stats = statistics(merge_counts(tables)).iloc[0]
    ordered = sorted(values)
    for name, q in (("p50_ms", 50), ("p95_ms", 95), ("p99_ms", 99), ("max_ms", 100)):
        rank = -(-q * len(ordered) // 100)
        assert stats[name] == ordered[rank - 1]
    assert (stats["rows"], stats["events"]) == (len(values), 2 * len(values))


def test_records_without_an_intended_time_count_as_rows_only() -> None:
    table = merge_counts([counts([("t", "append", 7, None, 3, 3), ("t", "append", 7, 10.0, 1, 1)])])
    stats = statistics(table).iloc[0]
    assert (stats["rows"], stats["max_ms"]) == (4, 10.0)
    bare = statistics(merge_counts([counts([("t", "append", 7, None, 3, 3)])])).iloc[0]
    assert bare["rows"] == 3
    assert np.isnan(bare["p50_ms"])


def test_nothing_gives_an_empty_table() -> None:
    assert list(merge_counts([empty_counts()]).columns) == COUNT_COLUMNS
    assert len(statistics(empty_counts())) == 0


def test_groups_are_kept_apart() -> None:
    table = merge_counts(
        [counts([("a", "append", 1, 5.0, 1, 1), ("a", "load", 1, 1.0, 1, 1), ("b", "append", 2, 9.0, 4, 4)])]
    )
    assert [tuple(row) for row in statistics(table)[["topic", "kind", "second", "max_ms"]].to_numpy()] == [
        ("a", "append", 1, 5.0),
        ("a", "load", 1, 1.0),
        ("b", "append", 2, 9.0),
    ]
    assert len(statistics(table, by=["topic"])) == 2


def test_quantiles_of_nothing_are_not_numbers() -> None:
    assert np.isnan(quantiles(np.array([]), np.array([], dtype=np.int64), [0.5])).all()
