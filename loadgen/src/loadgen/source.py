"""The PySpark data source `nexmark`: the deterministic event sequence as a table, in batch or paced in time.

Columns (all other columns of an event are inside `value`):

| column      | type   | meaning                                                                        |
|-------------|--------|--------------------------------------------------------------------------------|
| `key`       | binary | decimal text of the auction or bidder; null with `key=none`                    |
| `value`     | binary | the event as JSON, with `sched_ms` when it is stamped                          |
| `partition` | int    | k mod `topicPartitions`; null without that option                              |
| `k`         | long   | number of the event in the sequence                                            |
| `sched_ms`  | long   | intended wall-clock time of emission, ms since the Unix epoch; null: unstamped |

The rows depend on the options only, never on how many tasks split the sequence. As a stream the source is its
own pacemaker (see `loadgen.pacing`): time zero of the schedule is fixed when the first micro-batch is planned,
plus `leadMs` for the Python workers to start. It is kept in the stream's offset, so that all micro-batches and
a restarted query follow one schedule.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

import nexmark
from loadgen.errors import OptionError
from loadgen.options import KeyMode, SourceOptions
from loadgen.pacing import PaceSettings, Piece, pace, piece_bounds

__all__ = ["FORMAT", "SCHEMA", "NexmarkSource", "Range", "encode", "generator_config", "register", "total_events"]

FORMAT = "nexmark"
SCHEMA = "key BINARY, value BINARY, partition INT, k BIGINT, sched_ms BIGINT"

_ARROW_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("partition", pa.int32()),
        ("k", pa.int64()),
        ("sched_ms", pa.int64()),
    ]
)


def generator_config(options: SourceOptions) -> nexmark.GeneratorConfig:
    """The generator's settings that the options ask for.

    Raises:
        OptionError: A `generator.…` option is unknown or not a whole number.
        nexmark.NexmarkError: A value is out of the generator's range.
    """
    known = {field.name for field in fields(nexmark.GeneratorConfig)} - {"seed", "profile"}
    values: dict[str, int] = {}
    for name, text in options.generator.items():
        if name not in known:
            raise OptionError(f"unknown option generator.{name}; known are {', '.join(sorted(known))}")
        try:
            values[name] = int(text)
        except ValueError as error:
            raise OptionError(f"generator.{name}={text!r} must be a whole number") from error
    return nexmark.GeneratorConfig(seed=options.seed, profile=nexmark.Profile.parse(options.profile), **values)


def total_events(options: SourceOptions) -> int | None:
    """Number of events of the load: the smaller of what number and duration say; None if neither is given."""
    counts = []
    if options.events is not None:
        counts.append(options.events)
    if options.duration_ms is not None:
        profile = nexmark.Profile.parse(options.profile)
        before = int(profile.offsets_ms(np.array([options.start], dtype=np.int64))[0])
        counts.append(profile.count_until(before + options.duration_ms) - options.start)
    return min(counts) if counts else None


@dataclass
class Range(InputPartition):
    """One task's share: the events first, first + step, … below stop.

    Attributes:
        first: First event number.
        stop: First event number beyond the load (or the micro-batch).
        step: Distance of the event numbers.
        t0_ms: Wall clock of the schedule's time zero; None: none.
    """

    first: int
    stop: int
    step: int
    t0_ms: int | None

    @property
    def count(self) -> int:
        """Number of events of the share."""
        return max(0, -(-(self.stop - self.first) // self.step))


def split_range(start: int, stop: int, readers: int, t0_ms: int | None) -> list[Range]:
    """Splits event numbers among tasks: task g takes those congruent to g modulo the number of tasks."""
    firsts = (start + (g - start) % readers for g in range(readers))
    return [Range(first, stop, readers, t0_ms) for first in firsts if first < stop]


def encode(
    config: nexmark.GeneratorConfig,
    options: SourceOptions,
    first: int,
    count: int,
    step: int,
    sched_ms: NDArray[np.int64] | None,
) -> pa.RecordBatch:
    """Generates the rows of the events first, first + step, ….

    Args:
        config: The generator's settings.
        options: Key and partitioning.
        first: First event number.
        count: Number of events.
        step: Distance of the event numbers.
        sched_ms: Intended wall clock per event; None leaves the events unstamped.

    Returns:
        Rows in the source's schema.
    """
    numbers = np.arange(first, first + count * step, step, dtype=np.int64)
    values = nexmark.generate_json(config, first, count, step, sched_ms=sched_ms)
    if options.topic_partitions is None:
        partition = pa.nulls(count, pa.int32())
    else:
        partition = pa.array((numbers % options.topic_partitions).astype(np.int32))
    sched = pa.nulls(count, pa.int64()) if sched_ms is None else pa.array(sched_ms)
    key = _keys(config, options.key, first, count, step)
    return pa.RecordBatch.from_arrays([key, values, partition, pa.array(numbers), sched], schema=_ARROW_SCHEMA)


def _keys(config: nexmark.GeneratorConfig, mode: KeyMode, first: int, count: int, step: int) -> pa.Array:
    if mode == "none":
        return pa.nulls(count, pa.binary())
    return nexmark.keys(config, first, count, step, mode)


class NexmarkSource(DataSource):
    """The data source; `register` makes it known to a session as `nexmark`."""

    @classmethod
    def name(cls) -> str:
        """Name for `spark.read.format`."""
        return FORMAT

    def schema(self) -> str:
        """The columns; see the module's description."""
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's signature
        """Reader of a batch: all events at once, as fast as they are taken."""
        return NexmarkBatchReader(SourceOptions.from_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's signature
        """Reader of a stream: events at their intended times."""
        return NexmarkStreamReader(SourceOptions.from_options(self.options))


class NexmarkBatchReader(DataSourceReader):
    """Generates a given number of events without pacing."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._config = generator_config(options)

    def partitions(self) -> list[InputPartition]:
        """One share per task.

        Raises:
            OptionError: Neither the number of events nor a duration is given.
        """
        options = self._options
        total = total_events(options)
        if total is None:
            raise OptionError("a batch read needs the option events or duration")
        shares = split_range(options.start, options.start + total, options.readers, options.t0_ms)
        return [*shares] or [Range(0, 0, 1, None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of one share, in chunks."""
        share = _as_range(partition)
        remaining, first = share.count, share.first
        while remaining:
            count = min(self._options.chunk_rows, remaining)
            sched = self._sched_ms(first, count, share)
            yield encode(self._config, self._options, first, count, share.step, sched)
            first += count * share.step
            remaining -= count

    def _sched_ms(self, first: int, count: int, share: Range) -> NDArray[np.int64] | None:
        if self._options.stamp_now:
            return np.full(count, round(time.time() * 1000), dtype=np.int64)
        if share.t0_ms is None:
            return None
        numbers = np.arange(first, first + count * share.step, share.step, dtype=np.int64)
        return np.asarray(self._config.profile.offsets_ms(numbers) + share.t0_ms)


class NexmarkStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans long micro-batches, and hands their rows out at the intended times.

    An offset is `{"k": next event, "t0_ms": wall clock of time zero}`; `t0_ms` is 0 until it is fixed. A
    load of known length ends the query by itself with the trigger `availableNow`.
    """

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._config = generator_config(options)
        total = total_events(options)
        self._stop = None if total is None else options.start + total

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Where a new query starts."""
        return {"k": self._options.start, "t0_ms": self._options.t0_ms or 0}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name
        """Makes sure that the load ends.

        Raises:
            OptionError: The load has no end, so this trigger would never finish.
        """
        if self._stop is None:
            raise OptionError("trigger availableNow needs the option events or duration")

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: ARG002, N802 - Spark's
        """End of the next micro-batch: `spanMs` of schedule time, or the end of the load."""
        k, t0_ms = start["k"], start["t0_ms"]
        if self._stop is not None and k >= self._stop:
            return start
        if not t0_ms:
            t0_ms = round(time.time() * 1000) + self._options.lead_ms
        end = self._config.profile.count_until(self._offset_ms(k) + self._options.span_ms)
        end = max(end, k + 1)
        return {"k": end if self._stop is None else min(end, self._stop), "t0_ms": t0_ms}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """One share per task of a micro-batch; all follow the schedule of the end offset."""
        return [*split_range(start["k"], end["k"], self._options.readers, end["t0_ms"])]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Rows of one share at their intended times."""
        settings = PaceSettings(tick_ms=self._options.tick_ms)
        return pace(self._pieces(_as_range(partition)), _wall_ms, _sleep_ms, settings)

    def _offset_ms(self, k: int) -> int:
        return int(self._config.profile.offsets_ms(np.array([k], dtype=np.int64))[0])

    def _pieces(self, share: Range) -> Iterator[Piece[pa.RecordBatch]]:
        profile = self._config.profile
        t0_ms = share.t0_ms or 0
        first = share.first
        for _, end in piece_bounds(share.first, share.stop, self._offset_ms, profile.count_until):
            count = max(0, -(-(end - first) // share.step))
            if not count:
                continue
            numbers = np.arange(first, first + count * share.step, share.step, dtype=np.int64)
            due_us = profile.offsets_us(numbers)
            sched_ms = np.asarray(due_us // 1000 + t0_ms)
            yield Piece(
                due_us / 1000 + t0_ms,
                encode(self._config, self._options, first, count, share.step, sched_ms),
            )
            first += count * share.step


def register(spark: SparkSession) -> None:
    """Makes the format `nexmark` known to a session."""
    spark.dataSource.register(NexmarkSource)


def _as_range(partition: InputPartition) -> Range:
    if not isinstance(partition, Range):
        raise TypeError(f"expected a Range, got {partition!r}")
    return partition


def _wall_ms() -> float:
    return time.time() * 1000


def _sleep_ms(millis: float) -> None:
    time.sleep(millis / 1000)
