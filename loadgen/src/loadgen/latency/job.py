"""The latency job: follows topics while they grow, or measures them after the run."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from confluent_kafka import Producer

from loadgen.cluster import Brokers, client_settings
from loadgen.errors import JobError, TopicError
from loadgen.frames import read_records, stream_records
from loadgen.histogram import statistics
from loadgen.latency.meter import Frames, Meter
from loadgen.latency.report import report
from loadgen.oracle.job import settled_end
from loadgen.receipts import ReceiptReader
from loadgen.receiver import ReceiverProcess
from loadgen.topics import Offsets, check_clock, earliest_offsets, end_offsets, ensure_topic, measure_clock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["LatencyResult", "LatencySettings", "follow", "measure_batch"]

TRIGGER_S = 4.0
"""Seconds between micro-batches. At 10 k outputs/s a trigger costs the time of two small Spark jobs; every second
it took 0.6 core of two, every four to five seconds 0.2."""

LOOK_S = 0.5
"""How often to see whether the job is to end."""

FLUSH_TIMEOUT_S = 60.0
"""For the last micro-batch, which takes what came during the last trigger, with ample room for a slow machine."""


@dataclass(frozen=True, slots=True)
class LatencySettings:
    """What to measure, and where the results go.

    Attributes:
        bootstrap: The cluster.
        topics: Sink topics.
        directory: For counts, receipts, checkpoint, report; an earlier run's results in it are continued.
        input_topic: Topic of the load, for the load's own delay.
        from_start: From the first record that the topics have, else from their end.
        visible: Run a receiver, for visible latency.
        trigger_s: Seconds between micro-batches.
        fail_on_data_loss: End with an error when records are gone before they were read, else count them.
        output_topic: Send each window's figures there, as JSON; the newest record per key counts.
        check_clocks: Refuse to measure when the broker's clock is off.
    """

    bootstrap: Brokers
    topics: tuple[str, ...]
    directory: Path
    input_topic: str | None = None
    from_start: bool = True
    visible: bool = True
    trigger_s: float = TRIGGER_S
    fail_on_data_loss: bool = True
    output_topic: str | None = None
    check_clocks: bool = True

    @property
    def all_topics(self) -> tuple[str, ...]:
        """Sinks, and the input if it is read."""
        return self.topics if self.input_topic is None else (*self.topics, self.input_topic)


@dataclass(frozen=True, slots=True)
class LatencyResult:
    """What the job measured.

    Attributes:
        frames: The figures.
        lost: Offsets that were gone before they were read (only with `fail_on_data_loss=False`).
        clock_offset_ms: Broker's clock minus this host's; None: not measured.
        files: What was written: `html`, `png`, `windows`.
    """

    frames: Frames
    lost: int
    clock_offset_ms: float | None
    files: Mapping[str, str] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """For JSON; milliseconds throughout."""
        totals: dict[str, dict[str, Any]] = {}
        for row in self.frames.totals.to_dict("records"):
            figures = {k: (None if pd.isna(v) else v) for k, v in row.items() if k not in ("topic", "kind")}
            totals.setdefault(str(row["topic"]), {})[str(row["kind"])] = figures
        return {
            "records": dict(self.frames.records),
            "received": dict(self.frames.received),
            "lost": self.lost,
            "clock_offset_ms": self.clock_offset_ms,
            "latency": totals,
            "files": dict(self.files),
        }


def measure_batch(spark: SparkSession, settings: LatencySettings) -> LatencyResult:
    """Measures what the topics hold; with receipts of an earlier receiver in the directory, visible latency too.

    Args:
        spark: Session with the connector.
        settings: What to measure.

    Returns:
        The figures.

    Raises:
        TopicError: A topic is missing or unfit.
        ClockError: The clocks differ too much.
    """
    clock = _prepare(settings)
    start = {topic: earliest_offsets(settings.bootstrap, topic) for topic in settings.all_topics}
    end = {topic: settled_end(settings.bootstrap, topic) for topic in settings.all_topics}
    records = read_records(spark, settings.bootstrap, start, end, fail_on_data_loss=settings.fail_on_data_loss)
    receipts = _receipts_dir(settings)
    reader = ReceiptReader(receipts) if settings.visible and receipts.is_dir() else None
    meter = Meter(spark, settings.directory, settings.input_topic, reader)
    meter.process(records, 0)
    return _finish(settings, meter, 0, clock)


def follow(
    spark: SparkSession,
    settings: LatencySettings,
    on_window: Callable[[pd.DataFrame], None] | None = None,
    stop: threading.Event | None = None,
    *,
    idle_s: float | None = None,
    duration_s: float | None = None,
    on_ready: Callable[[], None] | None = None,
) -> LatencyResult:
    """Measures while the topics grow, by Structured Streaming, and ends with all that was there at the end.

    Args:
        spark: Session with the connector.
        settings: What to measure.
        on_window: Called after each micro-batch with the figures of the seconds it touched.
        stop: Ends the job when set.
        idle_s: End when no record came for so long, after the first one.
        duration_s: End after so long.
        on_ready: Called once, when the receiver and the query run.

    Returns:
        The figures.

    Raises:
        TopicError: A topic is missing or unfit.
        ClockError: The clocks differ too much.
        JobError: Spark's query failed, for instance because records were gone before they were read.
    """
    clock = _prepare(settings)
    stop = stop or threading.Event()
    at = earliest_offsets if settings.from_start else end_offsets
    start = {topic: at(settings.bootstrap, topic) for topic in settings.all_topics}
    with ExitStack() as stack:
        reader = ReceiptReader(_receipts_dir(settings)) if settings.visible else None
        if reader is not None:
            reader.refresh()
            begin = {topic: reader.next_offsets(topic, start[topic]) for topic in settings.topics}
            stack.enter_context(ReceiverProcess(settings.bootstrap, begin, reader.directory))
        meter = Meter(spark, settings.directory, settings.input_topic, reader)
        run = _Follower(spark, settings, meter, start, on_window)
        run.until(stop, idle_s, duration_s, on_ready)
        return _finish(settings, meter, run.lost, clock)


class _Follower:
    """One query, its micro-batches, and the conditions of its end."""

    def __init__(
        self,
        spark: SparkSession,
        settings: LatencySettings,
        meter: Meter,
        start: Mapping[str, Offsets],
        on_window: Callable[[pd.DataFrame], None] | None,
    ) -> None:
        self.lost = 0
        self._settings, self._meter, self._on_window = settings, meter, on_window
        self._reached_file = settings.directory / "reached.json"
        self._reached = {topic: dict(at) for topic, at in start.items()} | self._stored_reached()
        self._heard: float | None = None
        self._producer = _producer(settings) if settings.output_topic else None
        self._records = stream_records(spark, settings.bootstrap, start, fail_on_data_loss=settings.fail_on_data_loss)

    def until(
        self, stop: threading.Event, idle_s: float | None, duration_s: float | None, on_ready: Callable[[], None] | None
    ) -> None:
        """Runs until told to stop, then takes in what is left."""
        query = self._start(processingTime=f"{round(self._settings.trigger_s * 1000)} milliseconds")
        if on_ready is not None:
            on_ready()
        began = time.monotonic()
        try:
            while query.isActive and not stop.wait(LOOK_S):
                now = time.monotonic()
                if duration_s is not None and now - began >= duration_s:
                    break
                if idle_s is not None and self._heard is not None and now - self._heard >= idle_s:
                    break
        finally:
            active = query.isActive
            query.stop()
        _raise_failure(query, expected=active)
        last = self._start(availableNow=True)
        if not last.awaitTermination(round(FLUSH_TIMEOUT_S)):
            last.stop()
            raise JobError(f"the last micro-batch took more than {FLUSH_TIMEOUT_S:.0f} s and was given up")
        _raise_failure(last, expected=False)
        if self._producer is not None:
            self._producer.flush(FLUSH_TIMEOUT_S)

    def _start(self, **trigger: Any) -> Any:
        writer = self._records.writeStream.foreachBatch(self._batch)
        writer = writer.option("checkpointLocation", str(self._settings.directory / "checkpoint"))
        return writer.trigger(**trigger).start()

    def _batch(self, records: DataFrame, batch_id: int) -> None:
        if not self._settings.fail_on_data_loss:
            self._count_loss()
        touched = self._meter.process(records, batch_id)
        if self._meter.last_offsets:
            self._heard = time.monotonic()
            self._remember()
        if not len(touched):
            return
        windows = statistics(self._meter.counts_around(touched))
        if self._producer is not None:
            _send(self._producer, str(self._settings.output_topic), windows)
        if self._on_window is not None:
            self._on_window(windows)

    def _count_loss(self) -> None:
        """Offsets that left the log before they were read; markers among them count too."""
        for topic in self._settings.all_topics:
            reached = self._reached.setdefault(topic, {})
            for partition, first in earliest_offsets(self._settings.bootstrap, topic).items():
                self.lost += max(0, first - reached.get(partition, first))
                reached[partition] = max(first, reached.get(partition, first))

    def _remember(self) -> None:
        """Notes up to where the finished micro-batches have read, for this run and a restarted one."""
        for (topic, partition), offset in self._meter.last_offsets.items():
            reached = self._reached.setdefault(topic, {})
            reached[partition] = max(offset + 1, reached.get(partition, 0))
        hidden = self._reached_file.with_suffix(".tmp")
        hidden.write_text(json.dumps(self._reached), encoding="utf-8")
        hidden.replace(self._reached_file)

    def _stored_reached(self) -> dict[str, Offsets]:
        if not self._reached_file.is_file():
            return {}
        stored = json.loads(self._reached_file.read_text(encoding="utf-8"))
        return {topic: {int(p): offset for p, offset in at.items()} for topic, at in stored.items()}


def _producer(settings: LatencySettings) -> Producer:
    return Producer(client_settings(settings.bootstrap, {}))


def _raise_failure(query: Any, *, expected: bool) -> None:
    """Turns a query's failure into one line; an end that was asked for is none."""
    failed = query.exception()
    if failed is None or expected:
        return
    text = str(failed)
    gone = "data loss" in text.lower() or "out of range" in text.lower() or "KAFKA_DATA_LOSS" in text
    hint = "; records were deleted before they were read: --allow-data-loss goes on and counts them" if gone else ""
    raise JobError(f"the latency job failed: {text.strip().splitlines()[0][:500]}{hint}")


def _send(producer: Producer, topic: str, windows: pd.DataFrame) -> None:
    for row in json.loads(windows.to_json(orient="records")):
        key = f"{row['topic']}|{row['kind']}|{row['second']}"
        producer.produce(topic, json.dumps(row).encode(), key.encode())
    producer.poll(0)


def _receipts_dir(settings: LatencySettings) -> Path:
    return settings.directory / "receipts"


def _prepare(settings: LatencySettings) -> float | None:
    """Checks topics and clocks; the offset of the broker's clock."""
    if not settings.topics:
        raise TopicError("no sink topic given")
    settings.directory.mkdir(parents=True, exist_ok=True)
    for topic in settings.all_topics:
        ensure_topic(settings.bootstrap, topic)
    if not settings.check_clocks:
        return None
    reading = measure_clock(settings.bootstrap)
    check_clock(reading)
    return round(reading.offset_ms, 1)


def _finish(settings: LatencySettings, meter: Meter, lost: int, clock_offset_ms: float | None) -> LatencyResult:
    frames = meter.frames()
    windows = settings.directory / "windows.parquet"
    frames.windows.to_parquet(windows, index=False)
    written = report(frames, settings.directory) if len(frames.windows) else {}
    files = {name: str(path) for name, path in {**written, "windows": windows}.items()}
    result = LatencyResult(frames, lost, clock_offset_ms, files)
    summary = result.to_dict() | {"settings": {k: str(v) for k, v in asdict(settings).items()}}
    (settings.directory / "summary.json").write_text(json.dumps(summary, indent=2), encoding="utf-8")
    return result
