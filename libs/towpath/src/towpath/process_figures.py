"""What the kernel knows of this process (memory, processor time, files), under Prometheus' usual names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector, CollectorRegistry


class ProcessFigures(Collector):
    """Prometheus' own collector of them, asked when somebody looks, with labels of ours on each series.

    Args:
        labels: of the process, e.g. stage and replica.
        registry: where they are exposed.
    """

    def __init__(self, labels: Mapping[str, str], registry: CollectorRegistry) -> None:
        self._labels = dict(labels)
        self._kernel = ProcessCollector(registry=None)
        registry.register(self)

    def collect(self) -> Iterator[Metric]:
        """What Prometheus is shown."""
        for family in self._kernel.collect():
            family.samples = [sample._replace(labels=self._labels) for sample in family.samples]
            yield family
