"""Metrics of a replica, as Prometheus exposes them.

Busy time, rows and queue wait per operator are what a performance model of the stage needs. Measuring may fail: see
:mod:`towpath.figures`. Nothing here is done per row; what belongs to a task disappears with the task.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from prometheus_client import CollectorRegistry

from statemgr.store import StoreSize
from statemgr.types import TopicPartition
from towpath.coordinator.messages import ReplicaFigures
from towpath.figures import Figures

_LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


@dataclass
class _Totals:
    """What the library counts, but does not tell."""

    records: int = 0
    rows: int = 0
    output_rows: int = 0


class StageMetrics:
    """The series of one replica, in a registry of their own."""

    def __init__(self, stage: str, replica: str) -> None:
        self.registry = CollectorRegistry()
        make = Figures({"stage": stage, "replica": replica}, self.registry)
        make.process()
        self._busy = make.counters("towpath_operator_busy_seconds", "Time spent inside an operator", "operator")
        self._rows = make.counters(
            "towpath_operator_rows", "Rows that entered or left an operator", "operator", "direction"
        )
        self._batch = make.histograms(
            "towpath_operator_seconds", "Time of one batch in an operator", _LATENCY_BUCKETS, "operator"
        )
        self._wait = make.histograms(
            "towpath_operator_queue_wait_seconds",
            "Append to the input topic until the operator took the batch, oldest row of each batch",
            _LATENCY_BUCKETS,
            "operator",
        )
        self._phase = make.gauges("towpath_phase", "1 for the replica's current phase", "phase")
        self._sent_rows = make.counters("towpath_output_rows", "Rows written to an output topic", "topic")
        self._sent_bytes = make.counters("towpath_output_bytes", "Bytes written to an output topic", "topic")
        self._records = make.counters("towpath_records", "Kafka records read").of()
        self._decoded = make.counters("towpath_rows", "Rows decoded from input records").of()
        self.dead = make.counters("towpath_dead_letters", "Records sent to the dead-letter topic").of()
        self.late = make.counters("towpath_late_rows", "Rows left out because event time was past them").of()
        self.skipped = make.counters("towpath_input_lost_records", "Records given up after retention").of()
        self.commits = make.counters("towpath_commits", "Committed transactions").of()
        self.losses = make.counters("towpath_producer_lost", "Fences and other losses of the producer").of()
        self.restored = make.counters("towpath_restored_records", "Changelog records applied").of()
        self.dirty = make.gauges("towpath_dirty_entries", "Uncommitted state entries").of()
        self.waiting = make.gauges("towpath_waiting_rows", "Rows that wait for their state").of()
        self.commit_seconds = make.histograms("towpath_commit_seconds", "Duration of a commit", _LATENCY_BUCKETS).of()
        self._stage_latency = make.distributions(
            "towpath_stage_latency_seconds", "Append of an input record until the commit of what came of it"
        )
        self.stage_latency = self._stage_latency.of()
        self.end_to_end = make.distributions(
            "towpath_end_to_end_latency_seconds",
            "Intended emit time of the oldest event behind an output row until the row's commit",
            "topic",
        )
        self._totals = _Totals()
        self.tasks = TaskMetrics(make)
        self.hand_overs = HandOverMetrics(make)

    @contextmanager
    def operator(self, name: str, rows: int) -> Iterator[None]:
        """Count a batch that enters an operator, and the time it takes."""
        started = perf_counter()
        self._rows.of(name, "in").inc(rows)
        try:
            yield
        finally:
            took_s = perf_counter() - started
            self._busy.of(name).inc(took_s)
            self._batch.of(name).observe(took_s)

    def left(self, name: str, rows: int) -> None:
        """Count rows that left an operator."""
        self._rows.of(name, "out").inc(rows)

    def waited(self, name: str, seconds: float) -> None:
        """Record how long a batch waited for an operator."""
        self._wait.of(name).observe(max(0.0, seconds))

    def took(self, records: int, rows: int) -> None:
        """Count a batch of input: its Kafka records, and the rows in them."""
        self._records.inc(records)
        self._decoded.inc(rows)
        self._totals.records += records
        self._totals.rows += rows

    def sent(self, topic: str, rows: int, produced: int) -> None:
        """Count what was written to an output topic."""
        self._totals.output_rows += rows
        self._sent_rows.of(topic).inc(rows)
        self._sent_bytes.of(topic).inc(produced)

    def totals(self) -> ReplicaFigures:
        """What has been done so far, for the coordinator."""
        return ReplicaFigures(
            records=self._totals.records,
            rows=self._totals.rows,
            output_rows=self._totals.output_rows,
            stage_latency=self._stage_latency.buckets(),
            end_to_end=self.end_to_end.buckets(),
        )

    def phase(self, phase: str) -> None:
        """Show the replica's phase."""
        self._phase.clear()
        self._phase.of(phase).set(1)


class TaskMetrics:
    """The series of a replica's tasks."""

    def __init__(self, make: Figures) -> None:
        by_input = ("topic", "partition")
        self._next = make.gauges("towpath_task_input_offset", "Next input offset of an owned task", *by_input)
        self._lag = make.gauges(
            "towpath_task_lag_records", "Input offsets not read yet, as of the newest fetch", *by_input
        )
        self._committed_lag = make.gauges(
            "towpath_task_committed_lag_records", "Input offsets not committed yet, as of the newest fetch", *by_input
        )
        self._watermark_lag = make.gauges(
            "towpath_watermark_lag_seconds", "Wall clock less the watermark of a task", "partition"
        )
        self._bytes = make.gauges("towpath_state_bytes", "Size of a task's store, estimated", "partition")
        self._entries = make.gauges("towpath_state_entries", "Entries of a task's store, estimated", "partition")
        self._hits = make.counters("towpath_cache_hits", "Keys whose state was cached", "table")
        self._misses = make.counters("towpath_cache_misses", "Keys whose state was read from the store", "table")
        self.cached = make.gauges("towpath_cache_entries", "Cached state entries").of()

    def position(self, topic: str, partition: int, offset: int) -> None:
        """Show a task's next input offset."""
        self._next.of(topic, str(partition)).set(offset)

    def lag(self, source: TopicPartition, lag: int, committed_lag: int) -> None:
        """Show how far a task is behind the end of an input."""
        self._lag.of(source.topic, str(source.partition)).set(lag)
        self._committed_lag.of(source.topic, str(source.partition)).set(committed_lag)

    def watermark_lag(self, partition: int, seconds: float) -> None:
        """Show how far a task's event time is behind the clock."""
        self._watermark_lag.of(str(partition)).set(seconds)

    def size(self, partition: int, size: StoreSize) -> None:
        """Show how large a task's store is."""
        self._bytes.of(str(partition)).set(size.bytes)
        self._entries.of(str(partition)).set(size.entries)

    def reads(self, table: str, asked: int, read: int) -> None:
        """Count keys that were asked for, and those of them that were read from the store."""
        self._hits.of(table).inc(asked - read)
        self._misses.of(table).inc(read)

    def released(self, partition: int, sources: Iterable[TopicPartition]) -> None:
        """Remove the series of a task that is not owned any more."""
        for source in sources:
            for gauge in (self._next, self._lag, self._committed_lag):
                gauge.remove(source.topic, str(source.partition))
        for gauge in (self._watermark_lag, self._bytes, self._entries):
            gauge.remove(str(partition))

    def released_all(self) -> None:
        """Remove the series of all tasks: ownership was lost."""
        gauges = (self._next, self._lag, self._committed_lag, self._watermark_lag, self._bytes, self._entries)
        for gauge in gauges:
            gauge.clear()


class HandOverMetrics:
    """The series of state that comes to a replica, or leaves it."""

    def __init__(self, make: Figures) -> None:
        self._done = make.counters("towpath_migrations", "Tasks whose state has come here, all of it", "strategy")
        self._phase = make.distributions(
            "towpath_migration_phase_seconds", "Time of a phase of a hand-over at this replica", "strategy", "phase"
        )
        self._bytes = make.counters("towpath_migration_bytes", "Bytes of state from other replicas", "strategy")
        self._look_ups = make.counters("towpath_migration_look_ups", "Look-ups sent to state managers", "strategy")
        self._asked = make.counters(
            "towpath_migration_keys_asked", "Keys of which it was asked whether their state is here", "strategy"
        )
        self._local = make.counters("towpath_migration_keys_local", "Those of them whose state was here", "strategy")

    def phase(self, strategy: str, phase: str, seconds: float) -> None:
        """A phase of a hand-over took so long."""
        self._phase.of(strategy, phase).add_one(seconds)

    def came(self, strategy: str, *, bytes_: int, look_ups: int, asked: int, local: int) -> None:
        """Count state that came, what was asked for it, and what was found here."""
        self._bytes.of(strategy).inc(bytes_)
        self._look_ups.of(strategy).inc(look_ups)
        self._asked.of(strategy).inc(asked)
        self._local.of(strategy).inc(local)

    def done(self, strategy: str) -> None:
        """All state of a task is here."""
        self._done.of(strategy).inc()
