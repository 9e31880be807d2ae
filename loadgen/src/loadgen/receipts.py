"""When a read_committed reader had which records: written by the receiver, read by the latency job.

Append time is blind to transactions: a record is appended at once and visible only after the commit. Spark's
Kafka source does not say when it received a record, so a small process beside it does (`loadgen.receiver`).
What one fetch brings of a partition shares one stamp, so a receipt is a range of offsets; 10 k records per second
become a few hundred receipts. A range may span offsets of transaction markers, which no record has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from loadgen.topics import Offsets

__all__ = ["RECEIPT_SCHEMA", "ReceiptReader", "ReceiptWriter", "compact"]

RECEIPT_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("first", pa.int64()),
        ("last", pa.int64()),
        ("rows", pa.int64()),
        ("received_ms", pa.float64()),
        ("since_ms", pa.float64()),
    ]
)
"""Offsets `first` to `last` (inclusive) of a partition, `rows` records among them, received at `received_ms` by a
receiver that has been up to date since `since_ms`: what was appended before that says nothing about visibility."""

FILE_PATTERN = "receipts-*.parquet"

Receipt = tuple[str, int, int, int, int, float, float]


def compact(records: Iterable[tuple[str, int, int]], received_ms: float, since_ms: float) -> list[Receipt]:
    """Turns what one fetch brought into one receipt per partition.

    Args:
        records: Topic, partition and offset of each record; offsets ascend within a partition.
        received_ms: Wall clock after the fetch, ms since the Unix epoch.
        since_ms: Wall clock since which the receiver is up to date.

    Returns:
        Rows of `RECEIPT_SCHEMA`.
    """
    ranges: dict[tuple[str, int], list[int]] = {}
    for topic, partition, offset in records:
        found = ranges.get((topic, partition))
        if found is None:
            ranges[(topic, partition)] = [offset, offset, 1]
        else:
            found[1] = offset
            found[2] += 1
    return [(t, p, first, last, rows, received_ms, since_ms) for (t, p), (first, last, rows) in ranges.items()]


class ReceiptWriter:
    """Appends receipts to a directory, a complete file at a time."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._number = 1 + max((_number(path) for path in directory.glob(FILE_PATTERN)), default=0)
        self._pending: list[Receipt] = []
        # The first file takes Arrow a second or more, for what it loads; records must not wait for that.
        trial = directory / ".trial"
        self._write([("", 0, 0, 0, 0, 0.0, 0.0)], trial)
        trial.unlink()

    def add(self, receipts: Iterable[Receipt]) -> None:
        """Takes receipts; `flush` makes them readable."""
        self._pending.extend(receipts)

    def flush(self) -> None:
        """Writes what was added since the last time, if anything."""
        if not self._pending:
            return
        path = self._directory / f"receipts-{self._number:08d}.parquet"
        self._write(self._pending, path)
        self._number += 1
        self._pending = []

    def _write(self, receipts: list[Receipt], path: Path) -> None:
        columns = list(zip(*receipts, strict=True))
        arrays = [pa.array(column, field.type) for column, field in zip(columns, RECEIPT_SCHEMA, strict=True)]
        hidden = path.with_name(f".{path.name}.tmp")
        pq.write_table(pa.Table.from_arrays(arrays, schema=RECEIPT_SCHEMA), hidden, compression="lz4")
        hidden.replace(path)


@dataclass
class ReceiptReader:
    """Reads a directory of receipts as it grows.

    Attributes:
        directory: Where a `ReceiptWriter` writes.
    """

    directory: Path

    def __post_init__(self) -> None:
        self._seen = 0
        self._tables: list[pa.Table] = []
        self._covered: dict[tuple[str, int], int] = {}
        self.rows: dict[str, int] = {}

    def refresh(self) -> None:
        """Takes in the files that are new."""
        for path in sorted(self.directory.glob(FILE_PATTERN)):
            number = _number(path)
            if number <= self._seen:
                continue
            table = pq.read_table(path)
            self._seen = number
            self._tables.append(table)
            for row in table.select(["topic", "partition", "last", "rows"]).to_pylist():
                key = (row["topic"], row["partition"])
                self._covered[key] = max(self._covered.get(key, -1), row["last"])
                self.rows[row["topic"]] = self.rows.get(row["topic"], 0) + row["rows"]

    def next_offsets(self, topic: str, start: Offsets) -> Offsets:
        """Offsets from which a later receiver continues."""
        return {partition: max(at, self._covered.get((topic, partition), -1) + 1) for partition, at in start.items()}

    def missing(self, last: Mapping[tuple[str, int], int]) -> list[tuple[str, int]]:
        """Partitions whose receipts do not yet reach a given offset."""
        return [key for key, offset in last.items() if self._covered.get(key, -1) < offset]

    def wait_for(
        self,
        last: Mapping[tuple[str, int], int],
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> bool:
        """Waits until receipts reach the given last offsets.

        Args:
            last: (topic, partition) → offset of the last record of interest.
            timeout_s: How long to wait at most.
            clock: Monotonic seconds.
            sleep: Waits.

        Returns:
            Whether they do.
        """
        deadline = clock() + timeout_s
        while True:
            self.refresh()
            if not self.missing(last):
                return True
            if clock() >= deadline:
                return False
            sleep(0.05)

    def between(self, first: Mapping[tuple[str, int], int], last: Mapping[tuple[str, int], int]) -> pa.Table:
        """Receipts that touch given ranges of offsets.

        Args:
            first: (topic, partition) → first offset of interest.
            last: The same, last offset of interest.
        """
        kept = []
        for table in self._tables:
            columns = [table.column(name).to_pylist() for name in ("topic", "partition", "first", "last")]
            mask = [
                lo <= last.get((topic, partition), -1) and hi >= first.get((topic, partition), 0)
                for topic, partition, lo, hi in zip(*columns, strict=True)
            ]
            kept.append(table.filter(pa.array(mask)))
        return pa.concat_tables(kept) if kept else RECEIPT_SCHEMA.empty_table()

    def forget(self, before: Mapping[tuple[str, int], int]) -> None:
        """Drops tables that lie wholly before given offsets, so that a long run keeps memory flat."""
        self._tables = [table for table in self._tables if not _is_before(table, before)]


def _is_before(table: pa.Table, before: Mapping[tuple[str, int], int]) -> bool:
    columns = [table.column(name).to_pylist() for name in ("topic", "partition", "last")]
    return all(last < before.get((topic, partition), -1) for topic, partition, last in zip(*columns, strict=True))


def _number(path: Path) -> int:
    return int(path.stem.split("-")[1])
