"""Histograms that take whole columns: a batch costs a few microseconds, however many rows it has.

Prometheus' own histogram takes one value a call. Here a batch gives some of its values, evenly spread over it, with the
number of rows that each of them stands for; quantiles are read off the buckets as Prometheus does.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import HistogramMetricFamily, Metric
from prometheus_client.registry import Collector, CollectorRegistry

BOUNDS_S = (
    *(0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5, 0.75),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0),
)
"""Upper bounds of latencies in seconds: from a commit on an idle machine to the backlog of an outage."""

SAMPLES = 64
"""Values that a batch gives at most: the 99th percentile of a second at ten batches rests on its six largest."""


def stride(rows: int) -> int:
    """Every how many rows a value is taken; each then stands for so many."""
    return -(-rows // SAMPLES)


class Counts:
    """How many values fell into each bucket.

    Attributes:
        buckets: numbers, one more than there are bounds.
        total: sum of all values, in seconds.
    """

    def __init__(self) -> None:
        self.buckets = [0] * (len(BOUNDS_S) + 1)
        self.total = 0.0

    def add(self, seconds: Sequence[float], each: int) -> None:
        """Count values, every one for ``each`` rows; one below 0, as clocks that differ make them, is taken for 0."""
        values = [max(value, 0.0) for value in seconds]
        for value in values:
            self.buckets[bisect_left(BOUNDS_S, value)] += each
        self.total += sum(values) * each

    def add_one(self, seconds: float) -> None:
        """Count one value."""
        self.add([seconds], 1)


class Distribution(Collector):
    """A family of histograms by labels.

    Args:
        name: of the family.
        text: what it is, for people.
        labels: names of the labels.
        registry: where it is exposed.
        first: values of the first labels, which are the same for all.
    """

    def __init__(
        self, name: str, text: str, labels: Sequence[str], registry: CollectorRegistry, first: Sequence[str] = ()
    ) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._first = first
        self._children: dict[tuple[str, ...], Counts] = {}
        registry.register(self)

    def of(self, *values: str) -> Counts:
        """The counts with these further labels; made when they are asked for first, and shown from then on."""
        return self._children.setdefault(values, Counts())

    def buckets(self) -> list[int]:
        """Counts of the buckets, all labels together."""
        return summed(counts.buckets for counts in list(self._children.values()))

    def collect(self) -> Iterator[Metric]:
        """What Prometheus is shown."""
        family = HistogramMetricFamily(self._name, self._text, labels=self._labels)
        for values, counts in list(self._children.items()):
            upto = accumulate(counts.buckets)
            family.add_metric([*self._first, *values], list(zip(_NAMES, upto, strict=True)), counts.total)
        yield family


def summed(histograms: Iterable[Sequence[int]]) -> list[int]:
    """Counts of the buckets of several histograms together."""
    return [sum(counts) for counts in zip([0] * (len(BOUNDS_S) + 1), *histograms, strict=True)]


def quantile(buckets: Sequence[int], share: float) -> float | None:
    """The value in seconds below which so large a share lies, by linear interpolation within its bucket.

    Args:
        buckets: counts of the buckets.
        share: 0 … 1.

    Returns:
        None where nothing was counted; the largest bound where the value lies above it.
    """
    upto = list(accumulate(buckets))
    if not upto[-1]:
        return None
    rank = share * upto[-1]
    place = bisect_left(upto, rank)
    if place >= len(BOUNDS_S):
        return BOUNDS_S[-1]
    below, lower = (upto[place - 1], BOUNDS_S[place - 1]) if place else (0, 0.0)
    inside = upto[place] - below
    return lower + (BOUNDS_S[place] - lower) * (rank - below) / inside if inside else BOUNDS_S[place]


_NAMES = [*map(str, BOUNDS_S), "+Inf"]
