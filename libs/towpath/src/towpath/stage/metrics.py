"""Metrics of a replica, as Prometheus exposes them.

Busy time, rows and queue wait per operator are what a performance model of the stage needs. Measuring may fail: see
:mod:`towpath.figures`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from statemgr.types import TopicPartition
from towpath.figures import Figure

_LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class StageMetrics:
    """The series of one replica, in a registry of their own."""

    def __init__(self, stage: str, replica: str) -> None:
        self.registry = CollectorRegistry()
        labels = {"stage": stage, "replica": replica}

        def counter(name: str, text: str, *extra: str) -> Figure:
            return Figure(Counter(name, text, (*labels, *extra), registry=self.registry))

        def gauge(name: str, text: str, *extra: str) -> Figure:
            return Figure(Gauge(name, text, (*labels, *extra), registry=self.registry))

        def seconds(name: str, text: str, *extra: str) -> Figure:
            names = (*labels, *extra)
            return Figure(Histogram(name, text, names, buckets=_LATENCY_BUCKETS, registry=self.registry))

        self._labels = labels
        self._busy = counter("towpath_operator_busy_seconds", "Time spent inside an operator", "operator")
        self._rows = counter("towpath_operator_rows", "Rows that entered or left an operator", "operator", "direction")
        self._wait = seconds(
            "towpath_operator_queue_wait_seconds",
            "Append to the input topic until the operator took the batch, oldest row of each batch",
            "operator",
        )
        self._next = gauge("towpath_task_input_offset", "Next input offset of an owned task", "topic", "partition")
        self._phase = gauge("towpath_phase", "1 for the replica's current phase", "phase")
        self.records = counter("towpath_records", "Kafka records read").labels(**labels)
        self.dead = counter("towpath_dead_letters", "Records sent to the dead-letter topic").labels(**labels)
        self.late = counter("towpath_late_rows", "Rows left out because event time was past them").labels(**labels)
        self.skipped = counter("towpath_input_lost_records", "Records given up after retention").labels(**labels)
        self.commits = counter("towpath_commits", "Committed transactions").labels(**labels)
        self.losses = counter("towpath_producer_lost", "Fences and other losses of the producer").labels(**labels)
        self.restored = counter("towpath_restored_records", "Changelog records applied").labels(**labels)
        self.dirty = gauge("towpath_dirty_entries", "Uncommitted state entries").labels(**labels)
        self.commit_seconds = seconds("towpath_commit_seconds", "Duration of a commit").labels(**labels)

    @contextmanager
    def operator(self, name: str, rows: int) -> Iterator[None]:
        """Count a batch that enters an operator, and the time it takes."""
        started = perf_counter()
        self._rows.labels(**self._labels, operator=name, direction="in").inc(rows)
        try:
            yield
        finally:
            self._busy.labels(**self._labels, operator=name).inc(perf_counter() - started)

    def left(self, name: str, rows: int) -> None:
        """Count rows that left an operator."""
        self._rows.labels(**self._labels, operator=name, direction="out").inc(rows)

    def waited(self, name: str, seconds: float) -> None:
        """Record how long a batch waited for an operator."""
        self._wait.labels(**self._labels, operator=name).observe(max(0.0, seconds))

    def position(self, topic: str, partition: int, offset: int) -> None:
        """Show a task's next input offset."""
        self._next.labels(**self._labels, topic=topic, partition=str(partition)).set(offset)

    def released(self, sources: Iterable[TopicPartition]) -> None:
        """Remove the series of a task that is not owned any more."""
        for source in sources:
            self._next.remove(*self._labels.values(), source.topic, str(source.partition))

    def released_all(self) -> None:
        """Remove the series of all tasks: ownership was lost."""
        self._next.clear()

    def phase(self, phase: str) -> None:
        """Show the replica's phase."""
        self._phase.clear()
        self._phase.labels(**self._labels, phase=phase).set(1)
