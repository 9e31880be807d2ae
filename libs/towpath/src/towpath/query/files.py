"""How a sink of files is planned.

::

    rows ─▶ write_files ─┬─▶ announcements ─▶ topic
                         └─▶ (by directory) ─▶ until complete ─▶ mark_complete ─▶ topic "…-complete"

The second stage needs no knowledge of how many tasks write: each announcement comes before the marks by which its task
says that event time has come so far, so that a directory of which the watermark has passed the moment is complete.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from statemgr.state import bytes_codec, json_codec
from towpath.operators.file_index import PartFile
from towpath.operators.files import (
    COMPLETE_AT,
    FILE,
    FILES_TABLE,
    ROWS,
    ROWS_TABLE,
    FileWriter,
    MarkComplete,
    Period,
    Roll,
)
from towpath.operators.keys import KEY_TYPES
from towpath.operators.parquet_files import ParquetDirectory
from towpath.operators.windows import WINDOW_END, Window
from towpath.query import agg
from towpath.query.check import Schema, check_key, visible
from towpath.query.errors import ColumnTypeError, QueryError
from towpath.query.names import check_topic
from towpath.query.place import Place, require_event_time
from towpath.query.plan import Operator
from towpath.query.steps import Passing, RequireKeyStep, TableUse
from towpath.query.windowed_steps import RequireEventTimeStep
from towpath.query.windows import until

if TYPE_CHECKING:
    from towpath.query.streams import Stream

DEFAULT_ROLL_ROWS = 100_000
"""NEXMark's bids take 10 MB in state, and as much memory, for each file that is open; 4 MB on disk."""

DEFAULT_ROLL_MS = 60_000
"""A reader of files waits a minute at most, also where event time stands still."""

FILES = "files"
"""Column with the number of files of a complete directory."""

_TAKEN = (FILE, ROWS, COMPLETE_AT, FILES, WINDOW_END)


@dataclass(frozen=True)
class FileWriterStep:
    """Writes rows to files; ``by``: column that directories are named by → Polars type."""

    directory: Path
    by: Schema
    roll: Roll
    period: Period | None
    name: str = "write_files"
    tables: tuple[TableUse, ...] = field(init=False)

    def __post_init__(self) -> None:
        tables = TableUse(FILES_TABLE, json_codec(PartFile)), TableUse(ROWS_TABLE, bytes_codec())
        object.__setattr__(self, "tables", tables)

    def make(self) -> Operator:
        """A new operator."""
        return FileWriter(ParquetDirectory(self.directory, tuple(self.by)), self.by, self.roll, self.period)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """Everything: it is what files hold."""
        return set(visible(schema))

    def keeps(self, columns: Collection[str]) -> bool:  # noqa: ARG002
        """What comes out tells of files, not of rows."""
        return False


@dataclass(frozen=True)
class MarkCompleteStep(Passing):
    """Marks directories as complete."""

    directory: Path
    by: tuple[str, ...]
    name: str = "mark_complete"
    tables: tuple[TableUse, ...] = ()

    def make(self) -> Operator:
        """A new operator."""
        return MarkComplete(ParquetDirectory(self.directory, self.by), self.by)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """What is wanted, and what directories are named by."""
        return set(wanted) | set(self.by)


@dataclass(frozen=True)
class FilesSink:
    """What :meth:`towpath.query.Stream.sink_files` was told; see there."""

    topic: str
    directory: Path
    by: tuple[str, ...]
    window: Window | None
    on: str | None
    complete_after_ms: int
    roll: Roll

    def attach(self, place: Place, stream: Callable[[Place], Stream]) -> None:
        """End a stream with it; ``stream``: makes streams of places.

        Raises:
            QueryError: something does not fit.
        """
        check_topic(self.topic)
        label = place.label("sink_files")
        self._check_settings(label)
        self._check_columns(place, label)
        period = self._period(place, label)
        if period is not None:
            place = place.apply(RequireEventTimeStep(period.on))
        if self.by:
            place = place.apply(RequireKeyStep(self.by))
        types = {column: place.schema[column] for column in self.by}
        written = stream(place.apply(FileWriterStep(self.directory, types, self.roll, period)))
        written.select(FILE, ROWS, *self.by).sink(self.topic, key=self.by)
        if period is not None:
            self._mark(written, f"{place.stage}-complete", stream)

    def _mark(self, written: Stream, stage: str, stream: Callable[[Place], Stream]) -> None:
        """Mark directories when their time has come."""
        directories = written.key_by(*self.by).stage(stage).window(until(COMPLETE_AT))
        complete = directories.aggregate(**{FILES: agg.count(), ROWS: agg.sum(ROWS)})
        place = complete._place  # noqa: SLF001 - of the same package
        marked = stream(place.apply(MarkCompleteStep(self.directory, self.by)))
        marked.select(*self.by, FILES, ROWS).sink(f"{self.topic}-complete", key=self.by)

    def _check_settings(self, label: str) -> None:
        if not self.directory.is_absolute():
            raise QueryError(
                f"{label}: the directory {str(self.directory)!r} is relative, and each replica has a working directory "
                f"of its own: name it from the root, for example {str(Path('/data') / self.directory)!r}"
            )
        for name, value, least in (
            ("complete_after_ms", self.complete_after_ms, 0),
            ("roll_rows", self.roll.rows, 1),
            ("roll_ms", self.roll.ms, 1),
        ):
            if value < least:
                raise QueryError(f"{label}: {name}={value}, but it is at least {least}")

    def _check_columns(self, place: Place, label: str) -> None:
        if self.by:
            check_key(self.by, place.schema, f"{label}, partition_by")
        for column in self.by:
            if place.schema[column] not in KEY_TYPES:
                raise ColumnTypeError(f"{label}, partition_by: {column!r} is {place.schema[column]}; cast it to text")
            if column in _TAKEN or self.by.count(column) > 1:
                raise QueryError(f"{label}, partition_by: there is another column {column!r} already; rename it")
        kept = {name: place.schema[name] for name in visible(place.schema) if name not in self.by}
        if not kept:
            raise QueryError(f"{label}: no column is left for the files besides those of partition_by")
        _check_parquet(kept, label)

    def _period(self, place: Place, label: str) -> Period | None:
        if self.window is None:
            if self.on is not None or self.complete_after_ms:
                raise QueryError(f"{label}: on and complete_after_ms say when a window is complete: name window=…, too")
            return None
        if self.on is None:
            raise QueryError(f"{label}: window=… takes on='…', the column of the event time")
        if not isinstance(self.window, Window) or self.window.overlapping != 1:
            raise QueryError(f"{label}: a row lies in one directory, so window is tumbling(…)")
        if not self.by:
            raise QueryError(
                f"{label}: a directory is marked when its window is complete, so partition_by has to name the columns "
                "by which windows have directories of their own"
            )
        require_event_time(place, self.on, place.label("sink_files"))
        return Period(self.on, self.window.size_ms, self.complete_after_ms)


def _check_parquet(columns: dict[str, Any], label: str) -> None:
    try:
        pl.DataFrame(schema=columns).write_parquet(io.BytesIO())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, NotImplementedError) as error:
        text = str(error).split("\n", 1)[0]
        raise ColumnTypeError(f"{label}: Parquet can't hold these columns: {text}") from error
