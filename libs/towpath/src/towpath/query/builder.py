"""How queries are written: a source, steps, edges between named stages, a sink.

::

    query = Query("key_count")
    events = query.source("nexmark-events", schema=EVENTS, emit_time="sched_ms")
    bids = events.filter(pl.col("type") == "bid")
    counts = bids.key_by("auction").stage("count", parallelism=2).count()
    counts.sink("key-count", key="auction")
    plan = query.plan()

Steps without an edge between them run in one stage. ``stage(…)`` and every shuffle begin a new one, which can be
scaled by itself. A step is checked against the columns it will see as soon as it is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from towpath.query.check import Schema, check_key, check_names, unknown_column
from towpath.query.errors import ColumnTypeError, QueryError
from towpath.query.formats import RecordFormat, check_source, declared
from towpath.query.graph import Graph, Source
from towpath.query.names import check_app, check_topic
from towpath.query.place import Place, stage_options
from towpath.query.plan import PARTITION, SCHED, EventTime, Format, QueryPlan
from towpath.query.planner import plan_graph
from towpath.query.reductions import Columns, column_names
from towpath.query.streams import Stream

DEFAULT_PARTITIONS = 8
"""Partitions of the topics that Towpath makes, and so tasks of a keyed stage: the most replicas that share its work.
Eight divides evenly over 1, 2, 4 and 8 replicas, and keeps a commit over all of them under 10 ms."""


DEFAULT_LAG_MS = 4_000
"""As NEXMark's published queries have it."""

DEFAULT_IDLE_S = 10.0
"""Long for a partition that has rows, short for people who wait for a window."""


class Query:
    """A query under construction."""

    def __init__(self, app: str, *, partitions: int = DEFAULT_PARTITIONS, description: str = "") -> None:
        """Begin a query.

        Args:
            app: prefix of all its topics, groups and transactional ids.
            partitions: partition count of edge and sink topics that do not state their own.
            description: one line for people.

        Raises:
            GraphError: the name can't be part of a topic's name, or ``partitions`` is not positive.
        """
        check_app(app, partitions)
        self.app = app
        self.partitions = partitions
        self.description = description
        self._graph = Graph(partitions)

    def source(
        self,
        topic: str,
        *,
        schema: Mapping[str, Any],
        format: RecordFormat = Format.JSON,  # noqa: A002 - the word that people look for
        emit_time: str | None = None,
        keyed_by: Columns = (),
        key_column: str | None = None,
        timestamp_column: str | None = None,
        event_time: str | None = None,
        lag_ms: int = DEFAULT_LAG_MS,
        idle_s: float = DEFAULT_IDLE_S,
        stage: str = "source",
        parallelism: int = 1,
        backend: str = "rocksdb",
    ) -> Stream:
        """Read a topic of JSON objects, or of Avro or Protobuf records.

        Args:
            topic: name in Kafka; it must exist.
            schema: field → Polars type. Only fields that the query uses are decoded.
            format: ``"json"``, ``"avro"``, or what :func:`~towpath.query.avro` and :func:`~towpath.query.protobuf`
                give, whose records have schemas in a registry: the query's schema is the reader's view of them.
            emit_time: field with the intended emit time in ms; it travels along and is written by the sinks as
                ``sched_ms``. It is not a column.
            keyed_by: columns by whose text (Java's murmur2) the topic is partitioned already; a keyed step on them then
                needs no shuffle.
            key_column: column that gets the record's key as text.
            timestamp_column: column that gets the record's timestamp in ms (Int64): when it came to Kafka, where the
                topic has ``message.timestamp.type=LogAppendTime``.
            event_time: column with the event time in ms since the epoch (Int64), for windows.
            lag_ms: rows of a partition come at most so much later than the newest one: the watermark is behind by that.
            idle_s: a partition from which nothing has come for so long is not waited for.
            stage: name of the stage that reads the topic.
            parallelism: replicas of that stage.
            backend: where a keyed step in this stage keeps its state, ``rocksdb`` or ``memory``.
        """
        check_topic(topic)
        place = f"source {topic!r}"
        columns = {name: dtype for name, dtype in schema.items() if name != emit_time}
        check_names(columns, place)
        said = declared(format, place)
        check_source(said, columns, emit_time, place)
        if key_column is not None:
            check_names([key_column], place)
            columns[key_column] = pl.String()
        if timestamp_column is not None:
            check_names([timestamp_column], place)
            columns[timestamp_column] = pl.Int64()
        if not columns:
            raise QueryError(f"{place}: the schema has no field besides the emit time")
        keys = column_names(keyed_by)
        if keys:
            check_key(keys, columns, f"{place}, keyed_by")
        time = None if event_time is None else _event_time(columns, event_time, lag_ms, idle_s, place)
        full = {**columns, PARTITION: pl.Int32(), **({SCHED: pl.Int64()} if emit_time else {})}
        options = stage_options(stage, parallelism, backend)
        node = self._graph.add(Source(topic, full, options, emit_time, key_column, timestamp_column, time, said))
        return Stream(Place(self._graph, node, keys))

    @property
    def graph(self) -> Graph:
        """What has been written so far, for engines that plan it in their own way."""
        return self._graph

    def plan(self) -> QueryPlan:
        """The stage graph.

        Raises:
            GraphError: a branch has no sink, a name is used twice, or the like.
        """
        return plan_graph(self._graph, self.app, self.description)


def _event_time(columns: Schema, column: str, lag_ms: int, idle_s: float, place: str) -> EventTime:
    if column not in columns:
        raise unknown_column(column, columns, f"{place}, event_time")
    if columns[column] != pl.Int64:
        raise ColumnTypeError(f"{place}, event_time: {column!r} is {columns[column]}, not Int64, in ms since the epoch")
    if lag_ms < 0 or idle_s <= 0:
        raise QueryError(f"{place}: lag_ms={lag_ms}, idle_s={idle_s:g}, but neither can be negative, nor idle_s 0")
    return EventTime(column, lag_ms, idle_s)
