"""Figures that may fail: whoever is measured goes on as if nobody had counted.

The library that keeps the figures can raise at any call, for example where it is told to keep them in files and the
disk is full. Ownership, commits and fences must not depend on that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from towpath.distributions import Distribution
from towpath.process_figures import ProcessFigures

log = structlog.get_logger()


class Figure:
    """A series of figures, or a family of them by labels.

    Args:
        series: a counter, gauge or histogram of ``prometheus_client``; None: it could not be made.
    """

    said = False
    """Whether this process has told that figures are missing: once is enough."""

    __slots__ = ("_series",)

    def __init__(self, series: Any) -> None:
        self._series = series

    def labels(self, *values: str, **named: str) -> Figure:
        """The series with these labels."""
        return Figure(self._try("labels", *values, **named))

    def inc(self, amount: float = 1) -> None:
        """Count up."""
        self._try("inc", amount)

    def set(self, value: float) -> None:
        """Set a gauge."""
        self._try("set", value)

    def observe(self, value: float) -> None:
        """Add to a histogram."""
        self._try("observe", value)

    def remove(self, *values: str) -> None:
        """Remove the series with these labels, if there is one."""
        self._try("remove", *values)

    def clear(self) -> None:
        """Remove all series of a family."""
        self._try("clear")

    @property
    def exists(self) -> bool:
        """Whether the library has made it."""
        return self._series is not None

    def _try(self, call: str, *args: Any, **named: Any) -> Any:
        if self._series is None:
            return None
        try:
            return getattr(self._series, call)(*args, **named)
        except KeyError:  # nothing to remove
            return None
        except Exception as error:  # noqa: BLE001 - whatever it is, it must not reach what is measured
            self._say(error)
            return None

    @staticmethod
    def _say(error: Exception) -> None:
        if not Figure.said:
            Figure.said = True
            log.warning("figures are missing from /metrics, everything else goes on", cause=repr(error))


class Family:
    """A family of figures by labels, the first of which are the process's own.

    Args:
        series: a counter, gauge or histogram of ``prometheus_client`` with labels.
        first: values of the first labels, which are the same for all.
    """

    __slots__ = ("_first", "_known", "_series")

    def __init__(self, series: Any, first: Sequence[str]) -> None:
        self._series = Figure(series)
        self._first = tuple(first)
        self._known: dict[tuple[str, ...], Figure] = {}

    def of(self, *values: str) -> Figure:
        """The figure with these further labels."""
        found = self._known.get(values)
        if found is None:
            found = self._series.labels(*self._first, *values)
            if found.exists:
                self._known[values] = found
        return found

    def remove(self, *values: str) -> None:
        """Remove the figure with these labels, if there is one."""
        self._known.pop(values, None)
        self._series.remove(*self._first, *values)

    def clear(self) -> None:
        """Remove all of them."""
        self._known.clear()
        self._series.clear()


class Figures:
    """Makes the figures of one process.

    Args:
        labels: of all of them.
        registry: where they are exposed.
    """

    def __init__(self, labels: Mapping[str, str], registry: CollectorRegistry) -> None:
        self._labels = labels
        self._registry = registry

    def counters(self, name: str, text: str, *labels: str) -> Family:
        """Counters by further labels."""
        return self._family(Counter, name, text, labels)

    def gauges(self, name: str, text: str, *labels: str) -> Family:
        """Gauges by further labels."""
        return self._family(Gauge, name, text, labels)

    def histograms(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Family:
        """Histograms by further labels."""
        return self._family(Histogram, name, text, labels, buckets=buckets)

    def distributions(self, name: str, text: str, *labels: str) -> Distribution:
        """Histograms of latencies by further labels, that take columns; their own labels come first."""
        return Distribution(name, text, (*self._labels, *labels), self._registry, tuple(self._labels.values()))

    def process(self) -> None:
        """What the kernel knows of the process."""
        ProcessFigures(self._labels, self._registry)

    def _family(self, kind: Any, name: str, text: str, labels: Sequence[str], **more: Any) -> Family:
        series = kind(name, text, (*self._labels, *labels), registry=self._registry, **more)
        return Family(series, tuple(self._labels.values()))
