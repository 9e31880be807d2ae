"""The load job: the data source `nexmark` into a Kafka topic, through Spark's own Kafka sink.

Key and partition of a record:

- `key=none`: no key; event k goes to partition k mod n, stated explicitly. With one Spark task per partition
  group the order within a partition is that of the sequence.
- `key=auction|bidder`: the decimal text of that field, placed by Java's default partitioner (murmur2 of the key
  bytes mod n). Persons and auctions have no key; the producer spreads them.

Time zero of a paced load is fixed when Spark plans the first micro-batch, plus `lead_ms`; the start of the JVM
is therefore not part of any delay. What the first seconds cost after that (cold code, first connection) *is* in
the topic; the summary's delay leaves out `WARMUP_S` seconds and says so.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import nexmark
from loadgen.causes import cause_of
from loadgen.cluster import Brokers, source_options
from loadgen.errors import JobError, OptionError, UnreachableError
from loadgen.frames import read_records, stamped
from loadgen.histogram import quantiles
from loadgen.options import SourceOptions
from loadgen.source import FORMAT, generator_config, register, total_events
from loadgen.topics import (
    BOUNCE_S,
    PROBE_TOPIC,
    Offsets,
    append_span_ms,
    check_clock,
    end_offsets,
    ensure_probe_topic,
    ensure_topic,
    measure_clock,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["WARMUP_S", "LoadResult", "LoadSettings", "ProducerSettings", "Progress", "readers_for", "run_load"]

WARMUP_S = 5
"""Seconds of schedule time that the summary's delay leaves out. Measured on 2 cores: delays are up to 400 ms in
the first two seconds, while the JVM compiles the sink, and settle within four."""

WARM_UP_RUN_MS = 1000
"""Schedule time of the warm-up. Without it the first events were 3.2–3.4 s late (Python workers, planning, first
connection, cold code)."""

POLL_S = 0.5
"""Interval of progress reports; each costs one request to the broker."""

STOP_TIMEOUT_S = 20
"""For Spark to stop a query or job after it was told to; the session's stopTimeout is the same."""


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Settings of the sink's producer that matter to a measurement; all are part of the result.

    Attributes:
        acks: Acknowledgements; `all` also makes the producer idempotent.
        linger_ms: How long the producer waits for a batch to fill.
        batch_bytes: Size of a full batch.
        compression: Codec.
    """

    acks: str = "all"
    linger_ms: int = 2
    batch_bytes: int = 262_144
    compression: str = "lz4"

    def options(self) -> dict[str, str]:
        """As options of Spark's Kafka sink."""
        return {
            "kafka.acks": self.acks,
            "kafka.linger.ms": str(self.linger_ms),
            "kafka.batch.size": str(self.batch_bytes),
            "kafka.compression.type": self.compression,
            "kafka.buffer.memory": str(256 * self.batch_bytes),
        }


PACED = ProducerSettings(linger_ms=10)
FULL_SPEED = ProducerSettings(linger_ms=20, batch_bytes=524_288)


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """What to load, and where.

    Attributes:
        bootstrap: The cluster.
        topic: Name of the topic.
        source: What is generated. `topic_partitions` and `readers` are filled in from the topic.
        full_speed: As fast as it goes instead of paced; events are stamped with the time of their generation,
            since there is no schedule that they could be late for.
        create_partitions: Create the topic with that many partitions if it is missing.
        cores: Spark tasks that a load at full speed may use; a paced one uses one.
        producer: Settings of the producer; None: `PACED` or `FULL_SPEED`.
        measure: Read the topic at the end and report the load's own delay.
        check_clocks: Refuse to measure when the broker's clock is off.
        warm_up: Paced only: first run a second of the same load into the probe topic.
        checkpoint: Directory of the query's checkpoint; a temporary one if None.
    """

    bootstrap: Brokers
    topic: str
    source: SourceOptions = field(default_factory=SourceOptions)
    full_speed: bool = False
    create_partitions: int | None = None
    cores: int = 2
    producer: ProducerSettings | None = None
    measure: bool = True
    check_clocks: bool = True
    warm_up: bool = True
    checkpoint: Path | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """A look at a running load.

    Attributes:
        events: Records in the topic since the start.
        total: Records at the end, if known.
        rate: Records per second since the last look.
        behind_ms: How late the load is: age of the oldest event that is due and not in the topic. None before
            time zero and at full speed.
    """

    events: int
    total: int | None
    rate: float
    behind_ms: float | None


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load did.

    Attributes:
        events: Records appended.
        seconds: From the first to the last append.
        events_per_s: Records per second over that time.
        delay_p50_ms: Median of append − intended time, without the first `warmup_s` seconds; None: not measured.
        delay_p99_ms: The same, 99th percentile.
        delay_max_ms: The same, greatest.
        delay_max_with_warmup_ms: Greatest of all events.
        warmup_s: Seconds left out of the delay.
        t0_ms: Wall clock of the schedule's time zero.
        interrupted: Whether it was stopped before its end.
        topic: Name of the topic.
        partitions: Its partitions.
        partitioner: How records were placed.
        profile: Rate profile, or `max`.
        seed: Seed.
        clock_offset_ms: Broker's clock minus this host's; None: not measured.
        producer: Settings of the producer.
    """

    events: int
    seconds: float
    events_per_s: float
    delay_p50_ms: float | None
    delay_p99_ms: float | None
    delay_max_ms: float | None
    delay_max_with_warmup_ms: float | None
    warmup_s: int
    t0_ms: int | None
    interrupted: bool
    topic: str
    partitions: int
    partitioner: str
    profile: str
    seed: int
    clock_offset_ms: float | None
    producer: dict[str, Any]

    def to_json(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))


def readers_for(partitions: int, cores: int, *, keyed: bool) -> int:
    """Number of tasks that generate at full speed.

    Without a key it divides the number of partitions: then each partition is written by one task, in order.

    Args:
        partitions: Partitions of the topic.
        cores: Most tasks to use.
        keyed: Whether records are placed by key.
    """
    if keyed:
        return max(1, cores)
    return max(n for n in range(1, min(cores, partitions) + 1) if partitions % n == 0)


def run_load(
    spark: SparkSession,
    settings: LoadSettings,
    on_progress: Callable[[Progress], None] | None = None,
    stop: threading.Event | None = None,
) -> LoadResult:
    """Loads a topic and measures the load's own delay.

    Args:
        spark: Session with the connector.
        settings: What to load, and where.
        on_progress: Called about every half second.
        stop: Ends the load early when set.

    Returns:
        What was done.

    Raises:
        OptionError: The options have no meaning together.
        TopicError: The topic is missing or unfit.
        ClockError: The clocks differ too much.
        JobError: Spark's job failed.
    """
    source = settings.source
    if settings.full_speed and total_events(source) is None:
        raise OptionError("a load at full speed needs a number of events or a duration; add --events 2M")
    partitions = ensure_topic(settings.bootstrap, settings.topic, settings.create_partitions)
    clock = measure_clock(settings.bootstrap) if settings.check_clocks else None
    if clock is not None:
        check_clock(clock)
    keyed = source.key != "none"
    source = replace(
        source,
        topic_partitions=None if keyed else partitions,
        readers=readers_for(partitions, settings.cores, keyed=keyed) if settings.full_speed else 1,
        stamp_now=settings.full_speed,
    )
    settings = replace(settings, source=source, producer=settings.producer or _producer(settings))
    register(spark)
    start = end_offsets(settings.bootstrap, settings.topic)
    watch = Watch(settings, start, on_progress, stop or threading.Event())
    run = _run_full_speed if settings.full_speed else _run_paced
    with tempfile.TemporaryDirectory(prefix="towpath-load-") as made:
        interrupted = run(spark, settings, watch, settings.checkpoint or Path(made))
    return _result(spark, settings, watch, partitions, interrupted, clock.offset_ms if clock else None)


def _producer(settings: LoadSettings) -> ProducerSettings:
    return FULL_SPEED if settings.full_speed else PACED


def _run_paced(spark: SparkSession, settings: LoadSettings, watch: Watch, checkpoint: Path) -> bool:
    if settings.warm_up:
        _warm_up(spark, settings)
    query = _start_paced(spark, settings, checkpoint)
    try:
        while query.isActive and not watch.stop.wait(POLL_S):
            watch.t0_ms = watch.t0_ms or _schedule_start(checkpoint)
            watch.report()
    finally:
        interrupted = query.isActive
        _stop_query(query)
    watch.t0_ms = watch.t0_ms or _schedule_start(checkpoint)
    watch.report()
    return interrupted


def _start_paced(spark: SparkSession, settings: LoadSettings, checkpoint: Path) -> StreamingQuery:
    rows = spark.readStream.format(FORMAT).options(**settings.source.to_options()).load()
    writer = rows.select("key", "value", "partition").writeStream.format("kafka").options(**_sink(settings))
    writer = writer.option("checkpointLocation", str(checkpoint))
    if total_events(settings.source) is None:
        return writer.trigger(processingTime="0 seconds").start()
    return writer.trigger(availableNow=True).start()


def _warm_up(spark: SparkSession, settings: LoadSettings) -> None:
    """Runs a short load into the probe topic, so that the Python workers run and the JVM has compiled the path.

    Raises:
        JobError: It failed.
    """
    from pyspark.errors import StreamingQueryException

    ensure_probe_topic(settings.bootstrap)
    source = replace(
        settings.source, topic_partitions=1, events=None, duration_ms=WARM_UP_RUN_MS, lead_ms=0, t0_ms=None
    )
    with tempfile.TemporaryDirectory(prefix="towpath-warm-") as made:
        warm = replace(settings, topic=PROBE_TOPIC, source=source)
        query = _start_paced(spark, warm, Path(made))
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            raise JobError(f"the load's warm-up failed: {cause_of(error)}") from None


def _stop_query(query: StreamingQuery) -> None:
    """Ends a query.

    Raises:
        JobError: The query had failed by itself.
    """
    from pyspark.errors import StreamingQueryException

    active = query.isActive
    query.stop()
    try:
        query.awaitTermination(STOP_TIMEOUT_S)
        failed = query.exception()
    except StreamingQueryException as error:
        failed = error
    if failed is not None and not active:
        raise JobError(f"the load failed: {cause_of(failed)}")


def _run_full_speed(spark: SparkSession, settings: LoadSettings, watch: Watch, _: Path) -> bool:
    rows = spark.read.format(FORMAT).options(**settings.source.to_options()).load()
    failures: list[Exception] = []

    def write() -> None:
        try:
            rows.select("key", "value", "partition").write.format("kafka").options(**_sink(settings)).save()
        except Exception as error:  # noqa: BLE001 - handed to the thread that waits
            failures.append(error)

    writing = threading.Thread(target=write, name="load", daemon=True)
    writing.start()
    while writing.is_alive() and not watch.stop.is_set():
        writing.join(POLL_S)
        watch.report()
    interrupted = writing.is_alive()
    if interrupted:
        spark.sparkContext.cancelAllJobs()
        writing.join(STOP_TIMEOUT_S)
    elif failures:
        raise JobError(f"the load failed: {cause_of(failures[0])}") from failures[0]
    return interrupted


def _sink(settings: LoadSettings) -> dict[str, str]:
    producer = settings.producer or PACED
    return {**source_options(settings.bootstrap), "topic": settings.topic} | producer.options()


def _schedule_start(checkpoint: Path) -> int | None:
    """Time zero of the schedule, from the offset that the query logged for its first micro-batch."""
    logged = checkpoint / "offsets" / "0"
    if not logged.is_file():
        return None
    for line in logged.read_text(encoding="utf-8").splitlines():
        if '"t0_ms"' in line:
            return int(json.loads(line)["t0_ms"]) or None
    return None


class Watch:
    """Follows a load by the ends of its topic."""

    def __init__(
        self,
        settings: LoadSettings,
        start: Offsets,
        on_progress: Callable[[Progress], None] | None,
        stop: threading.Event,
    ) -> None:
        self.stop = stop
        self.start = start
        self.t0_ms: int | None = None
        self._settings = settings
        self._profile = generator_config(settings.source).profile
        self._total = total_events(settings.source)
        self._on_progress = on_progress
        self._last = (time.monotonic(), 0)

    def report(self) -> None:
        """Looks once, and tells; nothing while no broker answers, which is for the job itself to survive."""
        if self._on_progress is None:
            return
        try:
            ends = end_offsets(self._settings.bootstrap, self._settings.topic)
        except UnreachableError:
            return
        events = sum(end - self.start.get(partition, 0) for partition, end in ends.items())
        now, (then, before) = time.monotonic(), self._last
        self._last = (now, events)
        rate = (events - before) / max(now - then, 1e-9)
        self._on_progress(Progress(events, self._total, rate, self._behind_ms(events)))

    def _behind_ms(self, events: int) -> float | None:
        if self.t0_ms is None or (self._total is not None and events >= self._total):
            return None
        first = self._settings.source.start
        offset = int(self._profile.offsets_ms(np.array([first + events], dtype=np.int64))[0])
        due = time.time() * 1000 - self.t0_ms - offset
        return max(0.0, due) if time.time() * 1000 >= self.t0_ms else None


def _result(
    spark: SparkSession,
    settings: LoadSettings,
    watch: Watch,
    partitions: int,
    interrupted: bool,
    clock_offset_ms: float | None,
) -> LoadResult:
    end = end_offsets(settings.bootstrap, settings.topic, patience_s=BOUNCE_S)
    events = sum(at - watch.start.get(partition, 0) for partition, at in end.items())
    span = append_span_ms(settings.bootstrap, settings.topic, watch.start, end)
    seconds = max((span[1] - span[0]) / 1000, 0.001) if span else 0.0
    delays = Delays()
    if settings.measure and events and not settings.full_speed:
        bounds = {settings.topic: watch.start}, {settings.topic: end}
        records = read_records(spark, settings.bootstrap, *bounds)
        delays = measure_delays(records, (watch.t0_ms or 0) + WARMUP_S * 1000)
    keyed = settings.source.key != "none"
    return LoadResult(
        events=events,
        seconds=round(seconds, 3),
        events_per_s=round(events / seconds, 1) if seconds else 0.0,
        delay_p50_ms=delays.p50_ms,
        delay_p99_ms=delays.p99_ms,
        delay_max_ms=delays.max_ms,
        delay_max_with_warmup_ms=delays.max_with_warmup_ms,
        warmup_s=WARMUP_S,
        t0_ms=watch.t0_ms,
        interrupted=interrupted,
        topic=settings.topic,
        partitions=partitions,
        partitioner=f"murmur2({settings.source.key})" if keyed else "k mod partitions",
        profile="max" if settings.full_speed else str(nexmark.Profile.parse(settings.source.profile)),
        seed=settings.source.seed,
        clock_offset_ms=None if clock_offset_ms is None else round(clock_offset_ms, 1),
        producer=asdict(settings.producer or PACED),
    )


@dataclass(frozen=True, slots=True)
class Delays:
    """Append − intended time of a load's own records, in ms; None: not measured."""

    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    max_with_warmup_ms: float | None = None


def measure_delays(records: DataFrame, settled_ms: int) -> Delays:
    """Statistics of a load's own delay.

    Args:
        records: The load's records, as the Kafka source gives them.
        settled_ms: Events intended before this wall clock count for the greatest delay only. If there are no
            others (the load was shorter than the warm-up), all count for all figures.

    Returns:
        The statistics, exact.
    """
    delays = (
        stamped(records)
        .where("sched_ms IS NOT NULL")
        .selectExpr(f"sched_ms >= {settled_ms} AS settled", "CAST(append_ms - sched_ms AS DOUBLE) AS delay")
    )
    counts: Any = delays.groupBy("settled", "delay").count().toPandas()
    if not len(counts):
        return Delays()
    counts = counts.sort_values("delay")
    settled = counts[counts["settled"]] if counts["settled"].any() else counts.groupby("delay", as_index=False).sum()
    p50, p99, most = quantiles(settled["delay"].to_numpy(), settled["count"].to_numpy(), (0.5, 0.99, 1.0))
    return Delays(p50, p99, most, float(counts["delay"].max()))
