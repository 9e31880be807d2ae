"""Histograms that take whole columns."""

from __future__ import annotations

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from towpath.distributions import BOUNDS_S, SAMPLES, Counts, Distribution, quantile, stride


def bucket_of(seconds: float) -> int:
    """The bucket of a value, looked for one by one."""
    return next((place for place, bound in enumerate(BOUNDS_S) if seconds <= bound), len(BOUNDS_S))


def test_every_value_is_in_the_first_bucket_whose_bound_it_does_not_exceed() -> None:
    values = np.array([0.0, 0.005, 0.0051, 0.1, 1.0, 299.9, 300.0, 301.0, 1e9])
    counts = Counts()
    counts.add(values.tolist(), 1)
    expected = np.bincount([bucket_of(value) for value in values], minlength=len(BOUNDS_S) + 1)
    assert counts.buckets == expected.tolist()
    assert counts.total == pytest.approx(values.sum())


def test_a_value_counts_for_all_rows_that_it_stands_for() -> None:
    counts = Counts()
    counts.add([0.02, 0.2], 10)
    counts.add_one(0.02)
    assert counts.buckets[bucket_of(0.02)] == 11
    assert sum(counts.buckets) == 21
    assert counts.total == pytest.approx(10 * 0.22 + 0.02)


def test_clocks_that_differ_give_no_negative_latency() -> None:
    counts = Counts()
    counts.add([-5.0], 1)
    assert (counts.buckets[0], counts.total) == (1, 0.0)


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 20_000])
def test_a_batch_gives_few_values_that_stand_for_all_of_it(rows: int) -> None:
    taken = len(range(0, rows, stride(rows)))
    assert taken <= SAMPLES
    assert rows <= taken * stride(rows) < rows + stride(rows)


def test_a_quantile_is_in_the_bucket_of_the_true_one() -> None:
    values = np.random.default_rng(1).lognormal(-2, 1, 5000)
    counts = Counts()
    counts.add(values.tolist(), 1)
    for share in (0.01, 0.5, 0.9, 0.99, 1.0):
        found = quantile(counts.buckets, share)
        assert found is not None
        assert bucket_of(found) == bucket_of(float(np.quantile(values, share, method="inverted_cdf")))


def test_a_quantile_is_interpolated_within_its_bucket() -> None:
    counts = [0] * (len(BOUNDS_S) + 1)
    counts[bucket_of(0.2)] = 100  # 0.15 … 0.25
    assert quantile(counts, 0.5) == pytest.approx(0.2)


def test_of_nothing_there_is_no_quantile_and_beyond_the_last_bound_it_is_that_bound() -> None:
    counts = [0] * (len(BOUNDS_S) + 1)
    assert quantile(counts, 0.5) is None
    counts[-1] = 1
    assert quantile(counts, 0.5) == BOUNDS_S[-1]


def test_prometheus_is_shown_cumulative_buckets_with_count_and_sum() -> None:
    registry = CollectorRegistry()
    family = Distribution("latency_seconds", "How long", ("stage", "topic"), registry, ("count",))
    family.of("a").add([0.004, 0.02, 400.0], 2)
    family.of("b").add_one(1.0)

    def sample(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {"stage": "count", **labels})

    assert sample("latency_seconds_bucket", topic="a", le="0.005") == 2
    assert sample("latency_seconds_bucket", topic="a", le="300.0") == 4
    assert sample("latency_seconds_bucket", topic="a", le="+Inf") == 6
    assert sample("latency_seconds_count", topic="a") == 6
    assert sample("latency_seconds_sum", topic="a") == pytest.approx(800.048)
    assert sample("latency_seconds_count", topic="b") == 1
    assert sum(family.buckets()) == 7
