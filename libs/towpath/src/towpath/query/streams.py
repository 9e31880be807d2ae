"""Streams: the rows at a place of the query, and what can be done with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import polars as pl

from towpath.operators.files import Roll
from towpath.operators.json_encode import sink_schema
from towpath.operators.rows import BatchFunction
from towpath.operators.windows import Window
from towpath.query.check import check_key, check_names, check_row_wise, unknown_column, visible
from towpath.query.errors import ColumnTypeError, QueryError
from towpath.query.expressions import Expression, Written, expression, expressions, polars_forms
from towpath.query.files import DEFAULT_ROLL_MS, DEFAULT_ROLL_ROWS, FilesSink
from towpath.query.formats import RecordFormat, check_sink, declared
from towpath.query.graph import Sink
from towpath.query.keyed_places import KeyedPlaces
from towpath.query.keyed_streams import KeyedStream
from towpath.query.names import check_topic, name_of
from towpath.query.place import Place, cut, stage_options
from towpath.query.plan import Edge, Format
from towpath.query.reductions import Columns, column_names
from towpath.query.steps import (
    ExplodeStep,
    FilterStep,
    LookupStep,
    MapBatchesStep,
    RequireKeyStep,
    SelectStep,
    WithColumnsStep,
)


class Stream:
    """Rows at a place of the query. Every method gives a new stream; one stream may feed several edges and sinks."""

    def __init__(self, place: Place) -> None:
        """Made by :class:`~towpath.query.builder.Query`."""
        self._place = place

    @property
    def schema(self) -> dict[str, Any]:
        """Column → Polars type, without reserved columns."""
        return {name: self._place.schema[name] for name in visible(self._place.schema)}

    def filter(self, *predicates: Written) -> Stream:
        """Keep the rows for which all predicates are true; null counts as false."""
        written = expressions(predicates)
        return self._row_wise(FilterStep(polars_forms(written), written=written))

    def with_columns(self, *columns: Written, **named: Written) -> Stream:
        """Add or replace columns."""
        chosen = _chosen(columns, named)
        check_names((each.name for each in chosen), self._place.label("with_columns"))
        return self._row_wise(WithColumnsStep(polars_forms(chosen), written=chosen))

    def select(self, *columns: str | Written, **named: Written) -> Stream:
        """Replace the columns."""
        chosen = _chosen(columns, named)
        check_names((each.name for each in chosen), self._place.label("select"))
        return self._row_wise(SelectStep(polars_forms(chosen), written=chosen))

    def map_batches(self, function: BatchFunction) -> Stream:
        """Apply a function ``DataFrame → DataFrame`` to each batch, whatever its size.

        The function must judge each row by itself and keep the columns that begin with ``__``. It is called once with
        an empty frame to learn its columns.
        """
        step = MapBatchesStep(function, f"map_batches({name_of(function)})")
        result = self._place.apply(step)
        check_names((name for name in result.schema if name not in self._place.schema), self._place.label(step.name))
        return Stream(result)

    def explode(self, column: str) -> Stream:
        """Make a row of each element of a list; an empty list, or null, gives none."""
        label, schema = self._place.label("explode"), self._place.schema
        if column not in visible(schema):
            raise unknown_column(column, schema, label)
        if schema[column] != pl.List:
            raise ColumnTypeError(f"{label}: column {column!r} is {schema[column]}, not a list")
        return Stream(self._place.apply(ExplodeStep(column)))

    def lookup(self, table: pl.DataFrame, *, on: Columns, how: Literal["inner", "left"] = "inner") -> Stream:
        """Add the columns of a table that is part of the query, for a side input that does not change.

        Args:
            table: one row for each value of ``on``; every replica has it in memory.
            on: columns of both.
            how: ``inner`` drops rows without an entry, ``left`` gives them nulls.

        Raises:
            QueryError: the table has a value of ``on`` twice, or a column that the rows have, too.
        """
        columns, label = column_names(on), self._place.label("lookup")
        if how not in ("inner", "left"):
            raise QueryError(f"{label}: how={how!r}, but it is 'inner' or 'left'")
        for column in columns:
            if column not in table.columns:
                raise unknown_column(column, table.schema, f"{label}, the table")
        if table.select(columns).is_duplicated().any():
            raise QueryError(f"{label}: the table has several rows for one value of {', '.join(columns)}")
        check_names(table.columns, label)
        both = [name for name in table.columns if name in self._place.schema and name not in columns]
        if both:
            raise QueryError(f"{label}: rows and table both have {', '.join(both)}; rename one of them")
        return Stream(self._place.apply(LookupStep(table, columns, how == "inner")))

    def key_by(self, *columns: str) -> KeyedStream:
        """Bring rows with equal keys together, for the keyed steps.

        Rows whose key is null go to the dead-letter topic.
        """
        return MergedStreams([self._place]).key_by(*columns)

    def union(self, *others: Stream) -> MergedStreams:
        """The rows of this stream and others, which have the same columns; in one stage behind edges."""
        return MergedStreams([stream._place for stream in (self, *others)])  # noqa: SLF001 - of the same class

    def forward(self) -> EdgeTo:
        """An edge that keeps each row's partition; say to which stage by ``.stage(…)``."""
        return MergedStreams([self._place]).forward()

    def random(self, *, partitions: int | None = None) -> EdgeTo:
        """An edge that spreads rows round robin; say to which stage by ``.stage(…)``."""
        return MergedStreams([self._place]).random(partitions=partitions)

    def stage(self, name: str, *, parallelism: int = 1, backend: str = "rocksdb") -> Stream:
        """Begin a new stage behind a forward edge."""
        return self.forward().stage(name, parallelism=parallelism, backend=backend)

    def sink(
        self,
        topic: str,
        *,
        key: Columns = (),
        partitions: int | None = None,
        format: RecordFormat = Format.JSON,  # noqa: A002 - the word that people look for
    ) -> None:
        """Write each row to a topic as a JSON object, or as a record in another format.

        Args:
            topic: name in Kafka; made if it does not exist.
            key: column(s) whose text is the record's key, which decides the partition; without, rows go round robin.
            partitions: partition count, by default the query's.
            format: ``"json"``, ``"avro"``, or what :func:`~towpath.query.avro` and :func:`~towpath.query.protobuf`
                give; the schema of such records is registered under ``<topic>-value``.

        Raises:
            QueryError: a key column can't be one, a column has the name of a field that the sink adds, or the format
                has no place for one.
        """
        check_topic(topic)
        keys, label, schema = column_names(key), f"sink {topic!r}", self._place.schema
        if keys:
            check_key(keys, schema, label)
        said = declared(format, label)
        try:
            fields = sink_schema(schema)
        except ValueError as error:
            raise QueryError(f"{label}: {error}") from error
        written = check_sink(said, topic, fields, fields.keys() - schema.keys(), label)
        graph = self._place.graph
        graph.sinks.append(Sink(self._place.node, topic, keys, partitions or graph.partitions, schema, said, written))

    def sink_files(
        self,
        topic: str,
        directory: str | Path,
        *,
        partition_by: Columns = (),
        window: Window | None = None,
        on: str | None = None,
        complete_after_ms: int = 0,
        roll_rows: int = DEFAULT_ROLL_ROWS,
        roll_ms: int = DEFAULT_ROLL_MS,
    ) -> None:
        """Write each row once to Parquet files, which appear whole, and announce each file in a topic once it is there.

        The rows of a file are state of this stage until it is written. Directories are named ``column=value``, one
        level for each column of ``partition_by``, which readers find as columns; they are not in the files. Rows
        without a value for one of them go to the dead-letter topic. An announcement has the fields ``file`` (path
        below the directory), ``rows`` and those of ``partition_by``.

        With ``window`` a file is closed when its window is over, and a directory gets the marker ``_SUCCESS`` when all
        rows are there that were in time; the topic with ``-complete`` behind its name tells of it. Rows that are later
        still are written, to files beside the marker, and these files count as late (``towpath_late_rows``).

        Args:
            topic: where files are announced.
            directory: absolute path on a file system that all replicas see, local or mounted; that which it lies in
                exists.
            partition_by: columns that directories are named by: integers, texts or booleans.
            window: made by :func:`tumbling`; windows are told apart by columns of ``partition_by``.
            on: column of the event time in ms (Int64), with ``window``.
            complete_after_ms: event time from the end of a window until its directories are marked.
            roll_rows: a file is closed as soon as it has so many rows.
            roll_ms: a file is closed so long after its first row came, by the clock.

        Raises:
            QueryError: something does not fit; the text says what.
        """
        roll = Roll(roll_rows, roll_ms)
        sink = FilesSink(topic, Path(directory), column_names(partition_by), window, on, complete_after_ms, roll)
        sink.attach(self._place, Stream)

    def _row_wise(self, step: FilterStep | WithColumnsStep | SelectStep) -> Stream:
        check_row_wise(polars_forms(step.written), self._place.label(step.name))
        return Stream(self._place.apply(step))


class MergedStreams:
    """The rows of several streams, which come together in a stage."""

    def __init__(self, places: Sequence[Place]) -> None:
        """Made by :meth:`Stream.union`."""
        self._places = tuple(places)

    def key_by(self, *columns: str) -> KeyedStream:
        """See :meth:`Stream.key_by`."""
        for place in self._places:
            check_key(columns, place.schema, place.label("key_by"))
        places = [place.apply(RequireKeyStep(columns)) for place in self._places]
        return KeyedStream(KeyedPlaces(tuple(places), columns, None, places[0].graph.partitions), Stream)

    def forward(self) -> EdgeTo:
        """Edges that keep each row's partition; see :meth:`Stream.forward`."""
        return EdgeTo(self._places, Edge.FORWARD, self._places[0].partitions)

    def random(self, *, partitions: int | None = None) -> EdgeTo:
        """Edges that spread rows round robin; see :meth:`Stream.random`."""
        return EdgeTo(self._places, Edge.RANDOM, partitions or self._places[0].graph.partitions)

    def stage(self, name: str, *, parallelism: int = 1, backend: str = "rocksdb") -> Stream:
        """Begin a stage behind forward edges."""
        return self.forward().stage(name, parallelism=parallelism, backend=backend)


class EdgeTo:
    """An edge that does not lead anywhere yet, or several that lead to one stage."""

    def __init__(self, places: Sequence[Place], edge: Edge, partitions: int | None) -> None:
        """Made by :meth:`Stream.forward` and :meth:`Stream.random`."""
        self._places = places
        self._edge = edge
        self._partitions = partitions

    def stage(self, name: str, *, parallelism: int = 1, backend: str = "rocksdb") -> Stream:
        """Begin the stage at the other end.

        Args:
            name: unique in the query.
            parallelism: replicas at the start; more than there are partitions have nothing to do.
            backend: where keyed steps in it keep their state, ``rocksdb`` or ``memory``.
        """
        options = stage_options(name, parallelism, backend)
        return Stream(cut(self._places, self._edge, (), options, self._partitions))


def _chosen(given: Sequence[str | Written], named: Mapping[str, Written]) -> tuple[Expression, ...]:
    return (*expressions(given), *(expression(written).alias(name) for name, written in named.items()))
