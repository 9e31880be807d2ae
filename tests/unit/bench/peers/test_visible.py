"""Latency per event, from outputs of which it is known."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from bench.peers.visible import latencies_s, percentiles_ms


def outputs(*rows: tuple[int, int, float]) -> pl.DataFrame:
    schema = {"auction": pl.Int64, "count": pl.Int64, "visible_s": pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


KEYS = np.array([5, 6, 5, 5])
"""Meant to be sent at 100.0, 100.1, 100.2, 100.3."""


def test_an_event_waits_for_the_first_count_that_includes_it():
    seen = outputs((5, 1, 100.05), (6, 1, 100.4), (5, 3, 100.5))
    found = latencies_s(KEYS, 100.0, 10.0, seen)
    assert found.tolist() == pytest.approx([0.05, 0.3, 0.3, 0.2])


def test_an_output_that_comes_again_makes_nothing_later_or_sooner():
    seen = outputs((6, 1, 100.4), (5, 3, 100.5), (5, 3, 101.0), (5, 1, 102.0))
    assert latencies_s(KEYS, 100.0, 10.0, seen).tolist() == pytest.approx([0.5, 0.3, 0.3, 0.2])


def test_an_event_without_a_visible_count_is_infinitely_late():
    found = latencies_s(KEYS, 100.0, 10.0, outputs((5, 2, 100.5)))
    assert found.tolist() == pytest.approx([0.5, np.inf, 0.3, np.inf])


def test_percentiles_are_in_milliseconds():
    figures = percentiles_ms(np.linspace(0.0, 1.0, 1001))
    assert figures == {"p50_ms": 500.0, "p99_ms": 990.0, "p999_ms": 999.0, "max_ms": 1000.0}
