"""Streams: the rows at a place of the query, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import polars as pl

from towpath.operators.aggregates import Aggregate, Aggregates
from towpath.operators.enriched import Enriched
from towpath.operators.json_encode import sink_schema
from towpath.operators.process import RowFunction
from towpath.operators.rows import BatchFunction
from towpath.operators.sessions import Sessions
from towpath.operators.windows import WINDOW_END, WINDOW_START, Session, Until, Window
from towpath.query.agg import count
from towpath.query.check import check_key, check_names, check_row_wise, unknown_column, visible
from towpath.query.errors import ColumnTypeError, QueryError
from towpath.query.graph import Sink, StageOptions, sources_of
from towpath.query.names import check_topic
from towpath.query.place import Place, cut, stage_options
from towpath.query.plan import Edge
from towpath.query.reductions import (
    Columns,
    Kept,
    aggregated,
    column_names,
    highest,
    kept_columns,
    latest,
    sessions,
    top,
)
from towpath.query.steps import (
    AssignWindowsStep,
    CountStep,
    ExplodeStep,
    FilterStep,
    KeyedRowsStep,
    LookupStep,
    MapBatchesStep,
    ProcessStep,
    RequireEventTimeStep,
    RequireKeyStep,
    SelectStep,
    SessionsStep,
    Step,
    WindowedRowsStep,
    WithColumnsStep,
    output_name,
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

    def filter(self, *predicates: pl.Expr) -> Stream:
        """Keep the rows for which all predicates are true; null counts as false."""
        return self._row_wise(FilterStep(predicates), predicates)

    def with_columns(self, *expressions: pl.Expr, **named: pl.Expr) -> Stream:
        """Add or replace columns."""
        chosen = _as_expressions(expressions, named)
        check_names(map(output_name, chosen), self._place.label("with_columns"))
        return self._row_wise(WithColumnsStep(chosen), chosen)

    def select(self, *expressions: str | pl.Expr, **named: pl.Expr) -> Stream:
        """Replace the columns."""
        chosen = _as_expressions(expressions, named)
        check_names(map(output_name, chosen), self._place.label("select"))
        return self._row_wise(SelectStep(chosen), chosen)

    def map_batches(self, function: BatchFunction) -> Stream:
        """Apply a function ``DataFrame → DataFrame`` to each batch, whatever its size.

        The function must judge each row by itself and keep the columns that begin with ``__``. It is called once with
        an empty frame to learn its columns.
        """
        step = MapBatchesStep(function, f"map_batches({_name_of(function)})")
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

    def sink(self, topic: str, *, key: Columns = (), partitions: int | None = None) -> None:
        """Write each row to a topic as a JSON object.

        Args:
            topic: name in Kafka; made if it does not exist.
            key: column(s) whose text is the record's key, which decides the partition; without, rows go round robin.
            partitions: partition count, by default the query's.

        Raises:
            QueryError: a key column can't be one, or a column has the name of a field that the sink adds.
        """
        check_topic(topic)
        keys = column_names(key)
        if keys:
            check_key(keys, self._place.schema, f"sink {topic!r}")
        try:
            sink_schema(self._place.schema)
        except ValueError as error:
            raise QueryError(f"sink {topic!r}: {error}") from error
        graph = self._place.graph
        graph.sinks.append(Sink(self._place.node, topic, keys, partitions or graph.partitions, self._place.schema))

    def _row_wise(self, step: Step, expressions: Sequence[pl.Expr]) -> Stream:
        check_row_wise(expressions, self._place.label(step.name))
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
        return KeyedStream(places, columns, None, places[0].graph.partitions)

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


class KeyedStream:
    """Rows of one key belong together: what keyed steps work on."""

    def __init__(
        self, places: Sequence[Place], keys: tuple[str, ...], options: StageOptions | None, partitions: int
    ) -> None:
        """Made by :meth:`Stream.key_by`. Without ``options`` the first keyed step names the stage."""
        self._places = tuple(places)
        self._keys = keys
        self._options = options
        self._partitions = partitions

    def stage(
        self, name: str, *, parallelism: int = 1, backend: str = "rocksdb", partitions: int | None = None
    ) -> KeyedStream:
        """Begin a stage behind a hash edge.

        Args:
            name: unique in the query.
            parallelism: replicas at the start.
            backend: where the state is, ``rocksdb`` or ``memory``.
            partitions: of the edge, and so tasks of the stage; by default the query's.
        """
        options = stage_options(name, parallelism, backend)
        return KeyedStream(self._places, self._keys, options, partitions or self._partitions)

    def count(self, into: str = "count", *, emit: Literal["batch", "each"] = "batch") -> Stream:
        """Count the rows of each key.

        Columns that come out: the key and ``into`` (Int64). The count is the state table ``into``.

        Args:
            into: column of the count.
            emit: ``batch`` gives one row per distinct key and batch (how many rows depends on load, the last of a key
                does not), ``each`` one row per row.
        """
        if emit not in ("batch", "each"):
            raise QueryError(f"count(emit={emit!r}): emit is 'batch' or 'each'")
        if into in self._keys:
            raise QueryError(f"count(into={into!r}): the key has that name; choose another")
        check_names([into], "count")
        return Stream(self._enter("count").apply(CountStep(self._keys, into, emit == "each")))

    def aggregate(self, *, previous: str | None = None, **columns: Aggregate) -> Stream:
        """Aggregate all rows that each key has had, by the functions of :mod:`towpath.query.agg`.

        Columns that come out: the key and those named here; one row per distinct key and batch, whose last one of a key
        does not depend on batching. The state table is ``aggregate``.

        With ``previous`` a row also has the values that its key had before the batch, null for a new key, so that what
        comes behind can aggregate over keys: with ``previous="_before"`` the sum of ``total - total_before`` over all
        rows is that of the keys' newest totals.

        Args:
            previous: what is added to the names of columns for those values; None: they are left out.
            columns: column → aggregate, such as ``highest=agg.max("price")``.
        """
        place = self._enter("aggregate")
        return self._keep(place, aggregated(place, self._keys, columns, previous))

    def latest(self, by: Columns) -> Stream:
        """The newest row of each key: the one with the greatest ``by``, and of equal ones that which came last.

        Columns that come out: those that go in; a row per distinct key and batch for which there is a newer one. Also
        known as deduplication that keeps the last row. The state table is ``latest``.
        """
        place = self._enter("latest")
        return self._keep(place, latest(place, self._keys, by))

    def top(
        self, n: int, by: Columns, *, descending: bool | Sequence[bool] = True, rank: str = "rank_number"
    ) -> Stream:
        """The first ``n`` rows of each key, greatest first; of equal ones that which came first has the better place.

        Columns that come out: those that go in, and the place. A row comes out for every place that is new or has
        another row than before the batch; so the last row of each key and place is the result. The state table is
        ``top``.

        Args:
            n: places.
            by: columns of the order; nulls come last.
            descending: for all of them, or one for each.
            rank: column of the place (Int64), from 1 on.
        """
        place = self._enter("top")
        return self._keep(place, top(place, self._keys, n, by, descending, rank))

    def window(self, window: Window | Session | Until, *, on: str | None = None) -> WindowedStream:
        """Go on with windows of event time, whose results come when they close.

        A window closes when the watermark has reached its end: when every partition of every source has come so far,
        its lag taken off. Rows that come later are left out, and counted (``towpath_late_rows``). The event time of a
        window's results is its last moment, ``window_end`` - 1: windows over windows go by that.

        Args:
            window: made by :func:`tumbling`, :func:`hopping`, :func:`session` or :func:`until`.
            on: column of the event time in ms (Int64); not with :func:`until`, whose column says when to close.

        Raises:
            QueryError: a source has no ``event_time``, or ``on`` is missing.
        """
        time = window.column if isinstance(window, Until) else on
        if time is None or (isinstance(window, Until) and on is not None):
            raise QueryError("window(…) takes on='…', the column of the event time, except with until('…')")
        for place in self._places:
            label = place.label("window")
            untimed = [source.topic for source in sources_of(place.node) if source.event_time is None]
            if untimed:
                raise QueryError(
                    f"{label}: source {untimed[0]!r} tells no event time: write query.source(…, event_time='…')"
                )
            if time not in place.schema:
                raise unknown_column(time, place.schema, label)
            if place.schema[time] != pl.Int64:
                raise ColumnTypeError(
                    f"{label}: column {time!r} is {place.schema[time]}, and event time is Int64, in ms since the epoch"
                )
        return WindowedStream(self._enter, self._keys, window, time)

    def enrich(self, table: KeyedStream, *, columns: Sequence[str] | Mapping[str, str]) -> Stream:
        """Join rows with the newest row that a table has for their key; they wait in state until there is one.

        Columns that come out: those that go in, and the table's named ones, which take the place of those of the same
        name. Rows meet the table's row as it is when they are processed, or, where they had to wait, the first one. The
        state table is ``enrich``: per key the table's row, or the rows that wait. Known as stream–table join.

        Args:
            table: rows by as many key columns of the same types; the newest one of each key counts.
            columns: the table's columns that come out, or column that comes out → the table's column.
        """
        label = f"enrich in stage {self._options.name!r}" if self._options else "enrich"
        taken = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}
        check_names(taken, label)
        left, right = self._schema(), table._schema()
        for name, column in taken.items():
            if column not in right:
                raise unknown_column(column, right, f"{label}, the table")
            if name in self._keys:
                raise QueryError(f"{label}: {name!r} is the key, and the same on both sides")
        if [left[key] for key in self._keys] != [right[key] for key in table._keys]:
            raise ColumnTypeError(
                f"{label}: rows have the key {_typed(left, self._keys)}, the table {_typed(right, table._keys)}; "
                "keys that are to meet are of the same types"
            )
        rest = [name for name in visible(left) if name not in self._keys and name not in taken]
        facts = {f"{_TABLE}{column}": right[column] for column in dict.fromkeys(taken.values())}
        rows = [
            *map(pl.col, self._keys),
            pl.lit(value=False).alias(_OF_TABLE),
            *map(pl.col, rest),
            *(pl.lit(None, dtype).alias(name) for name, dtype in facts.items()),
        ]
        entries = [
            *(pl.col(theirs).alias(ours) for ours, theirs in zip(self._keys, table._keys, strict=True)),
            pl.lit(value=True).alias(_OF_TABLE),
            *(pl.lit(None, left[name]).alias(name) for name in rest),
            *(pl.col(column).alias(f"{_TABLE}{column}") for column in dict.fromkeys(taken.values())),
        ]
        places = [place.apply(SelectStep(tuple(rows))) for place in self._places]
        places += [place.apply(SelectStep(tuple(entries))) for place in table._places]
        options = self._options or stage_options("enrich", 1, "rocksdb")
        joined = cut(places, Edge.HASH, self._keys, options, self._partitions)
        reduction = Enriched(pl.col(_OF_TABLE), rest, {name: f"{_TABLE}{column}" for name, column in taken.items()})
        return self._keep(joined, Kept("enrich", reduction, frozenset([_OF_TABLE, *rest, *facts])))

    def _schema(self) -> Mapping[str, Any]:
        return self._places[0].schema

    def process(
        self, function: RowFunction, *, schema: Mapping[str, Any], state: Any = int, name: str | None = None
    ) -> Stream:
        """Run a function on each row, with a value of state for the row's key.

        Args:
            function: ``(row, state) → rows``, each a dict; see :class:`~towpath.operators.process.KeyState`.
            schema: columns that come out → Polars type.
            state: type of the value: whatever JSON can hold with a type (int, str, a msgspec.Struct, list[int] …).
            name: of the step, its table, and its stage if that has no name yet; by default the function's.
        """
        label = name or _name_of(function)
        check_names(schema, label)
        return Stream(self._enter(label).apply(ProcessStep(self._keys, function, dict(schema), state, label)))

    def _keep(self, place: Place, kept: Kept) -> Stream:
        result = place.apply(KeyedRowsStep(self._keys, kept.reduction, kept.reads, kept.name))
        kept_columns(place, self._keys, kept, _TABLE)
        return Stream(result)

    def _enter(self, default_stage: str) -> Place:
        """The stage of the keyed step: this one if rows are where they belong, else a new one."""
        if self._options is None and len(self._places) == 1 and self._places[0].placed_by == self._keys:
            return self._places[0]
        options = self._options or stage_options(default_stage, 1, "rocksdb")
        return cut(self._places, Edge.HASH, self._keys, options, self._partitions)


class WindowedStream:
    """Rows of one key and one window of event time belong together."""

    def __init__(
        self, enter: Callable[[str], Place], keys: tuple[str, ...], window: Window | Session | Until, on: str
    ) -> None:
        """Made by :meth:`KeyedStream.window`; ``enter`` gives the stage of the step of a name."""
        self._enter = enter
        self._keys = keys
        self._window = window
        self._on = on

    def count(self, into: str = "count") -> Stream:
        """Count the rows of each key and window.

        Columns that come out: the key, ``window_start``, ``window_end`` and ``into`` (Int64).
        """
        return self.aggregate(**{into: count()})

    def aggregate(self, **columns: Aggregate) -> Stream:
        """Aggregate the rows of each key and window, by the functions of :mod:`towpath.query.agg`.

        Columns that come out: the key, ``window_start``, ``window_end`` and those named here; one row when the window
        closes.

        Args:
            columns: column → aggregate, such as ``highest=agg.max("price")``.
        """
        if isinstance(self._window, Session):
            return self._sessions(self._window.gap_ms, columns)
        return self._keep("aggregate", lambda place, keys: aggregated(place, keys, columns, None))

    def latest(self, by: Columns) -> Stream:
        """The newest row of each key and window; see :meth:`KeyedStream.latest`."""
        return self._keep("latest", lambda place, keys: latest(place, keys, by))

    def top(
        self, n: int, by: Columns, *, descending: bool | Sequence[bool] = True, rank: str = "rank_number"
    ) -> Stream:
        """The first ``n`` rows of each key and window; see :meth:`KeyedStream.top`."""
        return self._keep("top", lambda place, keys: top(place, keys, n, by, descending, rank))

    def highest(self, by: str) -> Stream:
        """All rows of each key and window that have the greatest value of a column."""
        return self._keep("highest", lambda place, keys: highest(place, keys, by))

    def _keep(self, name: str, make: Callable[[Place, Sequence[str]], Kept]) -> Stream:
        if isinstance(self._window, Session):
            raise QueryError(f"{name} over sessions: only count and aggregate are there for them")
        place = self._timed(name).apply(AssignWindowsStep(self._window, self._on))
        keys = (*self._keys, WINDOW_END)
        kept = make(place, (*keys, WINDOW_START))
        columns = kept_columns(place, keys, kept)
        schema = {key: place.schema[key] for key in self._keys}
        step = WindowedRowsStep(schema, self._window, kept.reduction, columns, kept.reads, kept.name)
        return Stream(place.apply(step))

    def _sessions(self, gap_ms: int, columns: Mapping[str, Aggregate]) -> Stream:
        place = self._timed("sessions")
        reduction = Sessions(gap_ms, self._on, Aggregates(columns))
        kept = sessions(place, (*self._keys, WINDOW_START, WINDOW_END), reduction, columns)
        schema = {key: place.schema[key] for key in self._keys}
        found = kept_columns(place, self._keys, kept)
        return Stream(place.apply(SessionsStep(schema, reduction, found, kept.reads, kept.name)))

    def _timed(self, name: str) -> Place:
        """The stage of the step, where rows have an event time."""
        place = self._enter(name)
        taken = [column for column in (WINDOW_START, WINDOW_END) if column in place.schema and column != self._on]
        if taken:
            raise QueryError(f"{place.label('window')}: the rows have a column {taken[0]!r} already; rename it")
        return place.apply(RequireEventTimeStep(self._on))


_OF_TABLE = "of_table"
_TABLE = "table."
"""Columns of an enrichment's edge: whether a row is the table's, and the table's columns."""


def _typed(schema: Mapping[str, Any], columns: Sequence[str]) -> str:
    return ", ".join(f"{name} {schema[name]}" for name in columns)


def _as_expressions(given: Sequence[str | pl.Expr], named: Mapping[str, pl.Expr]) -> tuple[pl.Expr, ...]:
    plain = [pl.col(item) if isinstance(item, str) else item for item in given]
    return (*plain, *(expression.alias(name) for name, expression in named.items()))


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
