"""The stage graph: what every way of writing a query becomes, and all that the runtime knows of it.

::

    QueryPlan ── stages ──▶ StagePlan ── inputs ──▶ InputPlan (topic, format)
                                │──── operators ──▶ OperatorFactory (made anew for each replica)
                                │──── tables ─────▶ TableSpec (state, in the stage's changelog)
                                └──── outputs ────▶ OutputPlan (topic, format, routing)

Rows travel in Polars frames. Besides the columns of the schema a frame carries reserved columns:

========================  =======  ====================================================================
``__partition``           Int32    task the row belongs to; only while a stage processes it
``__sched_ms``            Int64    oldest intended emit time of the events behind the row
``__sched_newest_ms``     Int64    newest intended emit time (absent: equal to ``__sched_ms``)
``__events``              Int64    number of source events behind the row (absent: ``__rows``)
``__rows``                Int64    number of rows that were merged into it before an edge (absent: 1)
``__watermark``           Int64    the task's watermark when the row came; only on the way to windows
========================  =======  ====================================================================

While a task's state is on its way, ``__partition`` holds the row's number in the batch up to the keyed operator (see
:mod:`towpath.stage.gate`); a step that comes before it only carries the column.

An inner edge carries all but ``__partition``; a sink writes ``sched_ms``, ``sched_newest_ms`` and ``events``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol

import polars as pl

from statemgr.state import TableSpec, TaskState
from towpath.formats.declared import Declared
from towpath.query.errors import UnknownStageError

PARTITION = "__partition"
SCHED = "__sched_ms"
SCHED_NEWEST = "__sched_newest_ms"
EVENTS = "__events"
ROWS = "__rows"
WATERMARK = "__watermark"
RESERVED_PREFIX = "__"


class Edge(StrEnum):
    """How rows of a stage reach the tasks of the next."""

    FORWARD = "forward"
    RANDOM = "random"
    HASH = "hash"


class Format(StrEnum):
    """How rows are written in Kafka records."""

    JSON = "json"
    """One JSON object a row."""

    ARROW = "arrow"
    """One checked Arrow IPC message for the rows of a batch; inner edges only."""

    BYTES = "bytes"
    """One row a record, with the columns ``key`` and ``value`` as Kafka has them; for event-at-a-time code."""

    AVRO = "avro"
    """One Avro record a row; its schema is in a registry."""

    PROTOBUF = "protobuf"
    """One Protobuf message a row; its schema is in a registry."""


KEY_COLUMN = "key"
"""Column of a record's key in :attr:`Format.BYTES`: Binary, null where the record has none."""

VALUE_COLUMN = "value"
"""Column of a record's value in :attr:`Format.BYTES`: Binary, null for a tombstone."""

BYTES_SCHEMA: Mapping[str, Any] = {KEY_COLUMN: pl.Binary(), VALUE_COLUMN: pl.Binary()}
"""The schema of every frame in :attr:`Format.BYTES`."""


class OperatorContext(Protocol):
    """What the runtime gives an operator of one replica."""

    @property
    def tasks(self) -> Mapping[int, TaskState]:
        """State of the tasks that the replica owns, by partition; empty for a stateless stage."""
        ...

    def dead_letter(self, partition: int, value: bytes, reason: str) -> None:
        """Report a row that can't be processed; it goes to the dead-letter topic with the batch's transaction."""
        ...

    def late(self, rows: int) -> None:
        """Count rows that came after the windows that they belong to were closed."""
        ...

    def emit(self, topic: str, frame: pl.DataFrame) -> None:
        """Write rows to the output of that topic, besides those that the stage's last operator returns.

        Raises:
            LookupError: the stage has no output of that topic.
        """
        ...


class Operator(Protocol):
    """A step of a stage. One instance per replica, made anew after every loss of ownership."""

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Rows in (any number of tasks, each task's rows in input order) → rows out, ``__partition`` kept."""
        ...


OperatorFactory = Callable[[], Operator]


@dataclass(frozen=True)
class OperatorPlan:
    """An operator by name, and how to make it."""

    name: str
    make: OperatorFactory


@dataclass(frozen=True)
class EventTime:
    """How event time comes from the rows of a source.

    Attributes:
        column: event time in ms since the epoch (Int64).
        lag_ms: rows of a partition come at most so much later than the newest one; the watermark is behind by that.
        idle_s: a partition from which nothing has come for so long holds nobody's watermark.
    """

    column: str
    lag_ms: int
    idle_s: float


@dataclass(frozen=True)
class InputPlan:
    """A topic that a stage reads.

    Attributes:
        topic: name in Kafka.
        format: of the records: Arrow IPC for inner edges.
        schema: column → Polars type of the columns that the stage needs; others are not decoded. JSON fields of
            these names that are absent or null become null.
        partitions: partition count if Towpath makes the topic; None for a source topic, which must exist.
        emit_time: field with the intended emit time in ms, or None.
        key_column: name of a column that receives the record's key as text, or None.
        timestamp_column: name of a column that receives the record's timestamp in ms (Int64), or None.
        event_time: where event time comes from; None for inner edges, on which watermarks travel, and without it.
        declared: what the query says of records whose schema is in a registry; None for other formats.
    """

    topic: str
    format: Format
    schema: Mapping[str, Any]
    partitions: int | None = None
    emit_time: str | None = None
    key_column: str | None = None
    timestamp_column: str | None = None
    event_time: EventTime | None = None
    declared: Declared | None = None


@dataclass(frozen=True)
class OutputPlan:
    """A topic that a stage writes.

    Attributes:
        topic: name in Kafka.
        format: of the records: Arrow IPC for inner edges.
        edge: forward keeps the task's partition, random goes round robin, hash goes by ``key``.
        key: column(s) whose text is the record key (sinks) and decides the partition of a hash edge.
        partitions: partition count if Towpath makes the topic. None: as many as the stage's input topic has
            (forward edges), or the topic must exist (topics that Towpath does not make).
        inner: whether only Towpath reads it.
        default: whether it gets the rows that the last operator returns; otherwise only what is emitted to it.
        ways: stateless operators that these rows go through for this topic alone, one after the other where there are
            several; a topic gets the rows of each way.
        declared: what the query says of records whose schema is in a registry; None for other formats.
        fields: field → Polars type of such records.
    """

    topic: str
    format: Format
    edge: Edge
    key: tuple[str, ...] = ()
    partitions: int | None = None
    inner: bool = True
    default: bool = True
    ways: tuple[tuple[OperatorPlan, ...], ...] = ((),)
    declared: Declared | None = field(default=None, hash=False)
    fields: Mapping[str, Any] = field(default_factory=dict, hash=False)


@dataclass(frozen=True)
class StagePlan:
    """One operator stage, which runs as a service of its own with N replicas.

    ``event_time``: whether watermarks come with its input, and go on with its inner edges.
    """

    app: str
    name: str
    inputs: tuple[InputPlan, ...]
    operators: tuple[OperatorPlan, ...]
    outputs: tuple[OutputPlan, ...]
    tables: tuple[TableSpec[Any], ...] = ()
    parallelism: int = 1
    backend: str = "rocksdb"
    event_time: bool = False

    @property
    def stateful(self) -> bool:
        """Whether the stage keeps state, and so has a changelog."""
        return bool(self.tables)


@dataclass(frozen=True)
class QueryPlan:
    """A whole query: its stages in topological order."""

    app: str
    stages: tuple[StagePlan, ...]
    description: str = field(default="")

    def stage(self, name: str) -> StagePlan:
        """The stage of that name.

        Raises:
            UnknownStageError: there is none; the message lists those there are.
        """
        for stage in self.stages:
            if stage.name == name:
                return stage
        raise UnknownStageError(f"query {self.app!r} has no stage {name!r}; its stages: {', '.join(self.names)}")

    @property
    def names(self) -> Sequence[str]:
        """Names of the stages in topological order."""
        return [stage.name for stage in self.stages]
