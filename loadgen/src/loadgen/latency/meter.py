"""The latency computation of one micro-batch, and what all of them add up to.

Each micro-batch is reduced by Spark to counts per second and millisecond (`loadgen.histogram`), which are kept in
one small file per batch: a batch that is done again after a restart overwrites its file, so nothing counts twice.
There is no stateful operator in the plan: nothing can be late for a watermark, and no state store takes CPU from
the pipeline that is being measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa

from loadgen.frames import stamped
from loadgen.histogram import COUNT_COLUMNS, empty_counts, merge_counts, statistics
from loadgen.receipts import ReceiptReader

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Frames", "Meter", "load_frames"]

RECEIPT_TIMEOUT_S = 5.0
"""For the receiver to have what Spark has read: it flushes every 0.5 s, and reads the same committed records."""

COUNTS_DIR = "counts"

Positions = dict[tuple[str, int], int]
"""(topic, partition) → offset."""


@dataclass(frozen=True, slots=True)
class Frames:
    """The figures of a run.

    Attributes:
        windows: Per topic, kind and second of append: `loadgen.histogram.STAT_COLUMNS`.
        totals: The same over the whole run, per topic and kind.
        records: Topic → records that Spark read.
        received: Topic → records that the receiver counted; empty without a receiver.
    """

    windows: pd.DataFrame
    totals: pd.DataFrame
    records: Mapping[str, int]
    received: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, counts: pd.DataFrame, received: Mapping[str, int] | None = None) -> Frames:
        """Computes the figures from a merged counts table."""
        primary = counts[counts["kind"].isin(("append", "load"))]
        records = {str(topic): int(rows) for topic, rows in primary.groupby("topic")["rows"].sum().items()}
        return cls(statistics(counts), statistics(counts, by=("topic", "kind")), records, dict(received or {}))


def load_frames(directory: Path, received: Mapping[str, int] | None = None) -> Frames:
    """Reads the figures of a finished run from its output directory."""
    return Frames.of(merge_counts(pd.read_parquet(path) for path in _count_files(directory)), received)


@dataclass
class Meter:
    """Reduces micro-batches and adds them up.

    Attributes:
        spark: Session.
        directory: Where the counts go.
        input_topic: Topic of the load, whose own delay is reported as kind `load`; None: not read.
        receipts: What the receiver stamps; None: no visible latency.
    """

    spark: SparkSession
    directory: Path
    input_topic: str | None = None
    receipts: ReceiptReader | None = None

    def __post_init__(self) -> None:
        (self.directory / COUNTS_DIR).mkdir(parents=True, exist_ok=True)
        self._counts = {path.stem: pd.read_parquet(path) for path in _count_files(self.directory)}
        self.last_offsets: Positions = {}

    @property
    def counts(self) -> pd.DataFrame:
        """The counts of all batches so far."""
        return merge_counts(self._counts.values())

    def counts_around(self, touched: pd.DataFrame) -> pd.DataFrame:
        """The counts of all batches in the seconds that a batch touched; its cost does not grow with the run."""
        if not len(touched):
            return empty_counts()
        low, high = touched["second"].min(), touched["second"].max()
        near = (table for table in self._counts.values() if len(table) and table["second"].max() >= low)
        merged = merge_counts(table[table["second"].between(low, high)] for table in near)
        return merged[merged["second"].isin(touched["second"].unique())]

    def frames(self) -> Frames:
        """The figures of all batches so far."""
        return Frames.of(self.counts, self.receipts.rows if self.receipts else None)

    def process(self, records: DataFrame, batch_id: int) -> pd.DataFrame:
        """Takes in one micro-batch.

        Args:
            records: What the Kafka source gives.
            batch_id: Number of the batch; the same number replaces what it gave before.

        Returns:
            The batch's counts.
        """
        rows = stamped(records).persist()
        try:
            first, self.last_offsets = _extent(rows)
            counts = self._reduce(rows, first) if first else empty_counts()
        finally:
            rows.unpersist()
        name = f"batch-{batch_id:08d}"
        path = self.directory / COUNTS_DIR / f"{name}.parquet"
        hidden = path.with_name(f".{path.name}.tmp")
        counts.to_parquet(hidden, index=False)
        hidden.replace(path)
        self._counts[name] = counts
        if self.receipts is not None:
            self.receipts.forget(self.last_offsets)
        return counts

    def _reduce(self, rows: DataFrame, first: Positions) -> pd.DataFrame:
        sinks = rows if self.input_topic is None else rows.where(rows["topic"] != self.input_topic)
        parts = [
            _latencies(sinks, "append", "append_ms - sched_ms"),
            _latencies(sinks, "append_newest", "append_ms - sched_newest_ms"),
        ]
        if self.input_topic is not None:
            inputs = rows.where(rows["topic"] == self.input_topic)
            parts.append(_latencies(inputs, "load", "append_ms - sched_ms"))
        last = {key: offset for key, offset in self.last_offsets.items() if key[0] != self.input_topic}
        if self.receipts is not None and last:
            self.receipts.wait_for(last, RECEIPT_TIMEOUT_S)
            parts.append(self._visible(sinks, self.receipts.between(first, last)))
        together = parts[0]
        for part in parts[1:]:
            together = together.unionByName(part)
        counts = together.groupBy(*COUNT_COLUMNS[:4]).agg({"*": "count", "events": "sum"})
        return merge_counts([pd.DataFrame(map(tuple, counts.collect()), columns=COUNT_COLUMNS)])

    def _visible(self, sinks: DataFrame, receipts: pa.Table) -> DataFrame:
        """Rows with their time of receipt; those appended before the receiver was up to date are left out."""
        stamps = self.spark.createDataFrame(receipts).selectExpr(
            "topic", "partition", "EXPLODE(SEQUENCE(first, last)) AS offset", "received_ms", "since_ms"
        )
        seen = sinks.join(stamps, ["topic", "partition", "offset"]).where("append_ms >= since_ms")
        return _latencies(seen, "visible", "ROUND(received_ms - sched_ms)")


def _extent(rows: DataFrame) -> tuple[Positions, Positions]:
    """First and last offset of each partition that has rows."""
    from pyspark.sql import functions as f

    found = rows.groupBy("topic", "partition").agg(f.min("offset"), f.max("offset")).collect()
    return {(row[0], row[1]): row[2] for row in found}, {(row[0], row[1]): row[3] for row in found}


def _latencies(rows: DataFrame, kind: str, value: str) -> DataFrame:
    """One row per record: topic, kind, second of append, value_ms and events."""
    return rows.selectExpr(
        "topic", f"'{kind}' AS kind", "append_ms DIV 1000 AS second", f"CAST({value} AS DOUBLE) AS value_ms", "events"
    )


def _count_files(directory: Path) -> list[Path]:
    return sorted((directory / COUNTS_DIR).glob("batch-*.parquet"))
