"""What a registry shows, for tests."""

from __future__ import annotations

from prometheus_client import CollectorRegistry


def figure(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    """The sum of all samples of a series that have these labels; None: there is none."""
    found = [
        sample.value
        for family in registry.collect()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    return sum(found) if found else None


def labels_of(registry: CollectorRegistry, name: str, label: str) -> set[str]:
    """Values of a label over all samples of a series."""
    return {sample.labels[label] for family in registry.collect() for sample in family.samples if sample.name == name}
