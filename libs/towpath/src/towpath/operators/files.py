"""Writes rows to files, each row once, whatever becomes of those who write them.

::

    rows ─▶ chunks of an open file ─▶ closed ──committed──▶ written, renamed ─▶ announced, forgotten
            └──────── state, one transaction ────────┘      outside             └ one transaction ┘

A file's name and rows are those of a committed transaction before anything of it is on disk, and its rows are in state
until it is there. So whoever finds a closed file in state may write it: the first one does, and others find it there.
Who is a zombie by then writes the same, and who never commits writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import msgspec
import polars as pl

from statemgr.errors import CodecError, RecordTooLargeError
from statemgr.state import TaskState
from towpath.errors import StageStoppedError
from towpath.operators.arrow_frames import decode_frame, encode_frames
from towpath.operators.file_index import FileIndex, PartFile
from towpath.operators.json_encode import encode_json
from towpath.operators.keys import key_bytes
from towpath.operators.parquet_files import MAX_NAME_BYTES, ParquetDirectory, directory_name
from towpath.query.plan import PARTITION, RESERVED_PREFIX, OperatorContext

FILES_TABLE, ROWS_TABLE = "files", "file_rows"
"""State tables: files by their part while they are open, by their id once closed; and chunks of their rows."""

FILE, ROWS, COMPLETE_AT = "file", "rows", "complete_at"
"""Columns of an announcement: path below the directory, number of rows, and, where files have periods, the moment in
ms of event time at which no more rows of its directory are in time."""

_UNTIL = "__until"
_ESCAPED_BYTES = 3


@dataclass(frozen=True)
class Period:
    """The stretches of event time that directories belong to.

    Attributes:
        on: column of the event time in ms.
        size_ms: length; they begin at its multiples.
        complete_after_ms: from the end of one until its directories are complete.
    """

    on: str
    size_ms: int
    complete_after_ms: int


@dataclass(frozen=True)
class Roll:
    """When a file is closed, besides when its period is over: at so many rows, and so long after its first one."""

    rows: int
    ms: int


class FileWriter:
    """Writes the rows of each task to files of its own; puts out an announcement of each file once it is there.

    Args:
        directory: where files go.
        by: column that directories are named by → Polars type; these are not in the files.
        roll: when files are closed.
        period: of event time; None: rows have none.
    """

    state_table = FILES_TABLE

    def __init__(self, directory: ParquetDirectory, by: Mapping[str, Any], roll: Roll, period: Period | None) -> None:
        self._directory = directory
        self._by = dict(by)
        self._roll = roll
        self._period = period
        self._indexes: dict[int, FileIndex] = {}

    def check(self) -> None:
        """See :class:`towpath.operators.outbox.Outside`."""
        self._directory.check()

    def state_keys(self, frame: pl.DataFrame) -> list[bytes]:
        """See :class:`towpath.operators.keyed.Keyed`: one open file for each part."""
        return key_bytes(self._with_end(frame), [*self._by, _UNTIL])

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Take rows in; nothing comes out before a file is written."""
        rows = self._nameable(self._with_end(frame), context)
        parts = rows.partition_by(PARTITION, *self._by, _UNTIL, maintain_order=True) if rows.height else []
        for part in parts:
            self._append(part, context)
        return self._announced([], 0)

    def due(self, partition: int, context: OperatorContext) -> int | None:
        """End of the earliest period with an open file; see :class:`towpath.operators.outbox.Outbox`."""
        return None if self._period is None else self._index(partition, context).earliest

    def close(self, partition: int, watermark_ms: int, context: OperatorContext, most: int) -> pl.DataFrame:
        """Close files whose period is over; their announcements come when they are written."""
        for key in self._index(partition, context).ended(watermark_ms, most):
            self._close(partition, key, context)
        return self._announced([], partition)

    def held(self, partition: int, context: OperatorContext) -> int | None:
        """See :class:`towpath.operators.outbox.Outbox`: directories are not complete without their closed files."""
        closed = self._index(partition, context).closed
        if self._period is None or not closed:
            return None
        return min(closed.values()) + self._period.complete_after_ms

    def ready(self, partition: int, now_s: float, context: OperatorContext) -> bool:
        """See :class:`towpath.operators.outbox.Outbox`."""
        return self._writable(partition, context) is not None or bool(self._aged(partition, now_s, context))

    def deliver(self, partition: int, now_s: float, context: OperatorContext) -> pl.DataFrame:
        """See :class:`towpath.operators.outbox.Outbox`: write a closed file, and close those that are open for long."""
        key = self._writable(partition, context)
        written = [] if key is None else [self._write(partition, key, context.tasks[partition])]
        if key is not None:
            self._index(partition, context).closed.pop(key)
        for aged in self._aged(partition, now_s, context):
            self._close(partition, aged, context)
        return self._announced(written, partition)

    def _index(self, partition: int, context: OperatorContext) -> FileIndex:
        state = context.tasks[partition]
        known = self._indexes.get(partition)
        if known is None or not known.is_of(state):
            known = self._indexes[partition] = FileIndex(state, FILES_TABLE)
        return known

    def _aged(self, partition: int, now_s: float, context: OperatorContext) -> list[bytes]:
        return self._index(partition, context).aged(now_s, self._roll.ms / 1000)

    def _writable(self, partition: int, context: OperatorContext) -> bytes | None:
        """A closed file that was committed as such."""
        table = context.tasks[partition].table(FILES_TABLE)
        return next((key for key in self._index(partition, context).closed if table.committed(key)), None)

    def _with_end(self, frame: pl.DataFrame) -> pl.DataFrame:
        if self._period is None:
            return frame.with_columns(pl.lit(0, pl.Int64).alias(_UNTIL))
        size = self._period.size_ms
        return frame.with_columns((pl.col(self._period.on) // size * size + size).cast(pl.Int64).alias(_UNTIL))

    def _nameable(self, rows: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Rows whose directory can have a name; others go to the dead-letter topic."""
        for column, dtype in self._by.items():
            if dtype != pl.String:
                continue
            texts = rows.get_column(column)
            longest = int(texts.str.len_bytes().to_numpy().max(initial=0))
            if _ESCAPED_BYTES * (len(column.encode()) + longest) < MAX_NAME_BYTES:
                continue
            long = [text for text in texts.unique() if len(directory_name(column, text).encode()) > MAX_NAME_BYTES]
            if not long:
                continue
            refused = rows.filter(pl.col(column).is_in(long)).drop(_UNTIL)
            reason = f"{column} is too long for the name of a directory"
            for partition, value in zip(refused.get_column(PARTITION), encode_json(refused), strict=True):
                context.dead_letter(partition, value, reason)
            rows = rows.filter(~pl.col(column).is_in(long))
        return rows

    def _append(self, rows: pl.DataFrame, context: OperatorContext) -> None:
        """Add rows of one part to its open file."""
        partition = rows.item(0, PARTITION)
        chunks, count = self._encoded(rows, context)
        if not count:
            return
        state = context.tasks[partition]
        table = state.table(FILES_TABLE)
        (key,) = key_bytes(rows.head(1), [*self._by, _UNTIL])
        first = rows.row(0, named=True)
        file = table.get(key) or PartFile(uuid4().hex, [first[column] for column in self._by], first[_UNTIL])
        grown = msgspec.structs.replace(file, chunks=file.chunks + len(chunks), rows=file.rows + count)
        state.table(ROWS_TABLE).put_many(_chunk_keys(grown)[file.chunks :], chunks)
        table.put(key, grown)
        self._index(partition, context).add(key, grown.until)
        if grown.rows >= self._roll.rows:
            self._close(partition, key, context)

    def _encoded(self, rows: pl.DataFrame, context: OperatorContext) -> tuple[list[bytes], int]:
        """Chunks, and how many rows they hold; a row that is too large for one goes to the dead-letter topic."""
        try:
            columns = [name for name in rows.columns if name not in self._by and not name.startswith(RESERVED_PREFIX)]
            return encode_frames(rows.select(columns)), rows.height
        except RecordTooLargeError as error:
            if rows.height == 1:
                context.dead_letter(rows.item(0, PARTITION), encode_json(rows.drop(_UNTIL))[0], str(error))
                return [], 0
            half = rows.height // 2
            (first, some), (second, others) = (
                self._encoded(part, context) for part in (rows.head(half), rows.tail(rows.height - half))
            )
            return first + second, some + others

    def _close(self, partition: int, key: bytes, context: OperatorContext) -> None:
        """Let a file have no more rows; it is written once that is committed."""
        table = context.tasks[partition].table(FILES_TABLE)
        file = table.get(key)
        if file is not None:
            closed = file.id.encode()
            table.put_many([key, closed], [None, msgspec.structs.replace(file, closed=True)])
            self._index(partition, context).close(key, closed, file.until)

    def _write(self, partition: int, key: bytes, state: TaskState) -> tuple[Any, ...]:
        """Write a closed file and forget it; gives its announcement."""
        table, chunks = state.table(FILES_TABLE), state.table(ROWS_TABLE)
        file: Any = table.get(key)
        names = _chunk_keys(file)
        place = self._directory.place(file.part, f"part-{partition:05}-{file.id}.parquet")
        self._directory.write(place, lambda: _joined(place, chunks.get_many(names)))
        table.put(key, None)
        chunks.put_many(names, [None] * len(names))
        complete = () if self._period is None else (file.until + self._period.complete_after_ms,)
        return (place, file.rows, *file.part, *complete)

    def _announced(self, files: Sequence[tuple[Any, ...]], partition: int) -> pl.DataFrame:
        schema = {FILE: pl.String(), ROWS: pl.Int64(), **self._by}
        if self._period is not None:
            schema[COMPLETE_AT] = pl.Int64()
        found = pl.DataFrame(files, schema=schema, orient="row")
        return found.with_columns(pl.lit(partition, pl.Int32).alias(PARTITION))


class MarkComplete:
    """Puts a marker into each directory that comes, and passes the row on.

    Nothing depends on whether the transaction is committed: that a directory is complete is so once it is known.
    """

    def __init__(self, directory: ParquetDirectory, by: Sequence[str]) -> None:
        """``by``: columns that directories are named by."""
        self._directory = directory
        self._by = list(by)

    def check(self) -> None:
        """See :class:`towpath.operators.outbox.Outside`."""
        self._directory.check()

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:  # noqa: ARG002
        """Rows of complete directories → the same."""
        for part in frame.select(self._by).unique(maintain_order=True).iter_rows():
            self._directory.mark(part)
        return frame


def _chunk_keys(file: PartFile) -> list[bytes]:
    return [f"{file.id}/{number}".encode() for number in range(file.chunks)]


def _joined(place: str, chunks: Sequence[bytes | None]) -> pl.DataFrame:
    try:
        return pl.concat(map(decode_frame, chunks), how="diagonal")
    except (CodecError, pl.exceptions.PolarsError) as error:
        raise StageStoppedError(
            f"the rows of {place} can't be put together: {error}; if the query was changed while they waited, run its "
            "former version until they are written, or give the query another name to begin anew"
        ) from error
