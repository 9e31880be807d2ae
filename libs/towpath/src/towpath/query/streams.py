"""Streams: the rows at a place of the query, and what can be done with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import polars as pl

from towpath.operators.aggregates import Aggregate, Aggregates
from towpath.operators.count_windows import CountWindows
from towpath.operators.enriched import Enriched
from towpath.operators.expiry import Expiry
from towpath.operators.files import Roll
from towpath.operators.interval_join import TIME
from towpath.operators.json_encode import sink_schema
from towpath.operators.process import RowFunction
from towpath.operators.rows import BatchFunction
from towpath.operators.sessions import Sessions
from towpath.operators.timed_process import TimedRowFunction, TimerFunction
from towpath.operators.windows import WINDOW_END, WINDOW_START, Every, Session, Until, Window
from towpath.query.agg import count
from towpath.query.cep import AfterMatch, Measure, Pattern
from towpath.query.check import check_key, check_names, check_row_wise, unknown_column, visible
from towpath.query.errors import ColumnTypeError, QueryError
from towpath.query.expiring import DistinctStep, expiring, keep
from towpath.query.expressions import Expression, Written, expression, expressions, polars_forms
from towpath.query.files import DEFAULT_ROLL_MS, DEFAULT_ROLL_ROWS, FilesSink
from towpath.query.formats import RecordFormat, check_sink, declared
from towpath.query.graph import Sink, StageOptions
from towpath.query.joins import OF_RIGHT, JoinSide, check_sides, join_step, joined_rows
from towpath.query.matching import Search
from towpath.query.names import check_topic
from towpath.query.place import Place, cut, require_event_time, stage_options
from towpath.query.plan import Edge, Format
from towpath.query.reductions import (
    Columns,
    Kept,
    aggregated,
    changed,
    column_names,
    highest,
    kept_columns,
    latest,
    sessions,
    top,
)
from towpath.query.side_outputs import LateTo, SideOutput
from towpath.query.steps import (
    AssignWindowsStep,
    CountStep,
    ExplodeStep,
    FilterStep,
    LookupStep,
    MapBatchesStep,
    ProcessStep,
    RequireEventTimeStep,
    RequireKeyStep,
    SelectStep,
    SessionsStep,
    SideStep,
    WindowedRowsStep,
    WithColumnsStep,
)
from towpath.query.timed_process import timed_process


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

    def count(
        self,
        into: str = "count",
        *,
        emit: Literal["batch", "each"] = "batch",
        ttl_ms: int | None = None,
        ttl_on: str | None = None,
    ) -> Stream:
        """Count the rows of each key.

        Columns that come out: the key and ``into`` (Int64). The count is the state table ``into``.

        Args:
            into: column of the count.
            emit: ``batch`` gives one row per distinct key and batch (how many rows depends on load, the last of a key
                does not), ``each`` one row per row.
            ttl_ms: see :meth:`aggregate`; not with ``each``.
            ttl_on: see :meth:`aggregate`.
        """
        if emit not in ("batch", "each"):
            raise QueryError(f"count(emit={emit!r}): emit is 'batch' or 'each'")
        if into in self._keys:
            raise QueryError(f"count(into={into!r}): the key has that name; choose another")
        check_names([into], "count")
        place = self._enter("count")
        if ttl_ms is None and ttl_on is None:
            return Stream(place.apply(CountStep(self._keys, into, emit == "each")))
        if emit == "each":
            raise QueryError("count(emit='each', ttl_ms=…): a count of each row does not go away; use emit='batch'")
        place, expiry = expiring(place, ttl_ms, ttl_on, "count")
        return self._keep(place, aggregated(place, self._keys, {into: count()}, None)._replace(name=into), expiry)

    def aggregate(
        self,
        *,
        previous: str | None = None,
        ttl_ms: int | None = None,
        ttl_on: str | None = None,
        **columns: Aggregate,
    ) -> Stream:
        """Aggregate all rows that each key has had, by the functions of :mod:`towpath.query.agg`.

        Columns that come out: the key and those named here; one row per distinct key and batch, whose last one of a key
        does not depend on batching. The state table is ``aggregate``.

        With ``previous`` a row also has the values that its key had before the batch, null for a new key, so that what
        comes behind can aggregate over keys: with ``previous="_before"`` the sum of ``total - total_before`` over all
        rows is that of the keys' newest totals.

        Args:
            previous: what is added to the names of columns for those values; None: they are left out.
            ttl_ms: state of a key goes away when so much event time has gone by since its newest row, and the key
                begins anew with its next one, wherever batches end: a row counts with the watermark at which it
                comes. None: it stays for good.
            ttl_on: column of that time in ms (Int64); by default the event time of the sources.
            columns: column → aggregate, such as ``highest=agg.max("price")``.
        """
        place, expiry = expiring(self._enter("aggregate"), ttl_ms, ttl_on, "aggregate")
        return self._keep(place, aggregated(place, self._keys, columns, previous), expiry)

    def latest(self, by: Columns, *, ttl_ms: int | None = None, ttl_on: str | None = None) -> Stream:
        """The newest row of each key: the one with the greatest ``by``, and of equal ones that which came last.

        Columns that come out: those that go in; a row per distinct key and batch for which there is a newer one. Also
        known as deduplication that keeps the last row. The state table is ``latest``. For ``ttl_ms`` and ``ttl_on`` see
        :meth:`aggregate`.
        """
        place, expiry = expiring(self._enter("latest"), ttl_ms, ttl_on, "latest")
        return self._keep(place, latest(place, self._keys, by), expiry)

    def top(
        self,
        n: int,
        by: Columns,
        *,
        descending: bool | Sequence[bool] = True,
        rank: str = "rank_number",
        ttl_ms: int | None = None,
        ttl_on: str | None = None,
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
            ttl_ms: see :meth:`aggregate`.
            ttl_on: see :meth:`aggregate`.
        """
        place, expiry = expiring(self._enter("top"), ttl_ms, ttl_on, "top")
        return self._keep(place, top(place, self._keys, n, by, descending, rank), expiry)

    def distinct(self, *columns: str, ttl_ms: int | None = None, ttl_on: str | None = None) -> Stream:
        """The first row of each key, or of each value of some columns within a key; the others are left out.

        Columns that come out: those that go in. The state table is ``distinct``: an entry for each of what was seen.

        Args:
            columns: whose values count besides the key.
            ttl_ms: what was seen is forgotten when so much event time has gone by since its newest row, whether that
                passed or not; see :meth:`aggregate`.
            ttl_on: see :meth:`aggregate`.
        """
        place, expiry = expiring(self._enter("distinct"), ttl_ms, ttl_on, "distinct")
        keys = tuple(dict.fromkeys((*self._keys, *columns)))
        check_key(keys, place.schema, place.label("distinct"))
        if columns:
            place = place.apply(RequireKeyStep(columns))
        return Stream(place.apply(DistinctStep(keys, expiry)))

    def window(
        self,
        window: Window | Session | Until | Every,
        *,
        on: str | None = None,
        emit: Literal["close", "update"] = "close",
    ) -> WindowedStream:
        """Go on with windows of event time, whose results come when they close, or whenever they change.

        A window closes when the watermark has reached its end: when every partition of every source has come so far,
        its lag taken off. Rows that come later are left out, and counted (``towpath_late_rows``). The event time of a
        window's results is its last moment, ``window_end`` - 1: windows over windows go by that.

        Args:
            window: made by :func:`tumbling`, :func:`hopping`, :func:`session` or :func:`until`; or by :func:`every`,
                which goes by the number of rows of a key alone, wherever batches end, and has ``count`` and
                ``aggregate``: their columns are those named there.
            on: column of the event time in ms (Int64); not with :func:`until`, whose column says when to close.
            emit: ``close`` gives the results of a window when it closes; ``update`` gives a row of a key and window for
                each batch in which it has changed (how many depends on load, the last one is what ``close`` gives),
                and nothing when it closes.

        Raises:
            QueryError: a source has no ``event_time``, ``on`` is missing, or sessions are to give updates.
        """
        if isinstance(window, Every):
            if on is not None or emit != "close":
                raise QueryError("window(every(…)) goes by the number of rows: leave on and emit out")
            return WindowedStream(self._enter, self._keys, window, "")
        if emit not in ("close", "update"):
            raise QueryError(f"window(emit={emit!r}): emit is 'close' or 'update'")
        if emit == "update" and isinstance(window, Session):
            raise QueryError(
                "window(session(…), emit='update'): sessions that grow together were put out apart before, which no "
                "later row takes back; leave emit out"
            )
        time = window.column if isinstance(window, Until) else on
        if time is None or (isinstance(window, Until) and on is not None):
            raise QueryError("window(…) takes on='…', the column of the event time, except with until('…')")
        for place in self._places:
            require_event_time(place, time, place.label("window"))
        return WindowedStream(self._enter, self._keys, window, time, updates=emit == "update")

    def match(self, pattern: Pattern, *, on: str, after_match: AfterMatch = "no_skip", **measures: Measure) -> Stream:
        """Find a pattern in the rows of each key, in the order of their event times; see :mod:`towpath.query.cep`.

        Columns that come out: the key, ``match_start`` (event time of the first row), ``match_end`` (when the match was
        certain: event time of its last row, or the end of its time where the pattern ends with ``not_followed_by``),
        and the measures; a row for each match, when the watermark has passed ``match_end``. Rows that come after the
        watermark has passed them are left out, and counted (``towpath_late_rows``). The state table is ``match``: per
        key the rows that wait for the watermark, and what has begun.

        Args:
            pattern: begun by :func:`cep.begin`; must have an end in time, ``within``.
            on: column of the event time in ms (Int64).
            after_match: ``no_skip``: a match for each first row; ``skip_past_last_event``: no row is in two matches.
            measures: column → value, such as ``amount=cep.last("charge", "amount")``.

        Raises:
            QueryError: a source has no ``event_time``, the pattern no end in time; a condition, step or column can't
                be.
        """
        search = Search(self._places, self._keys, pattern, on, after_match, measures)
        places = [search.before_edge(place) for place in self._places]
        keyed = KeyedStream(places, self._keys, self._options, self._partitions)
        return Stream(search.behind_edge(keyed._enter("match")))

    def enrich(
        self,
        table: KeyedStream,
        *,
        columns: Sequence[str] | Mapping[str, str],
        ttl_ms: int | None = None,
        ttl_on: str | None = None,
    ) -> Stream:
        """Join rows with the newest row that a table has for their key; they wait in state until there is one.

        Columns that come out: those that go in, and the table's named ones, which take the place of those of the same
        name. Rows meet the table's row as it is when they are processed, or, where they had to wait, the first one. The
        state table is ``enrich``: per key the table's row, or the rows that wait. Known as stream–table join.

        Args:
            table: rows by as many key columns of the same types; the newest one of each key counts.
            columns: the table's columns that come out, or column that comes out → the table's column.
            ttl_ms: the table's row of a key, or the rows that wait, go away when so much event time has gone by since
                the newest row of either side; see :meth:`aggregate`.
            ttl_on: column of that time on both sides; by default the event time of their sources.
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

        def side(place: Place, chosen: Sequence[pl.Expr], *, of_table: bool = False) -> Place:
            place, expiry = expiring(place, ttl_ms, ttl_on, "enrich")
            time = () if expiry is None else (pl.col(expiry.on).alias(_OF_TIME),)
            return place.apply(SideStep((*chosen, *time), of_table=of_table))

        places = [side(place, rows) for place in self._places]
        places += [side(place, entries, of_table=True) for place in table._places]
        options = self._options or stage_options("enrich", 1, "rocksdb")
        joined = cut(places, Edge.HASH, self._keys, options, self._partitions)
        reduction = Enriched(pl.col(_OF_TABLE), rest, {name: f"{_TABLE}{column}" for name, column in taken.items()})
        expiry = None if ttl_ms is None else Expiry(ttl_ms, _OF_TIME)
        return self._keep(joined, Kept("enrich", reduction, frozenset([_OF_TABLE, *rest, *facts])), expiry)

    def join(
        self,
        right: KeyedStream,
        *,
        on: str | tuple[str, str],
        within: tuple[int, int],
        columns: Sequence[str] | Mapping[str, str],
    ) -> Stream:
        """Join rows with those of another stream that have the same key and are near in event time.

        Columns that come out: those of this stream, and the right one's named ones; a row for every pair, when the
        later of the two has come. Rows whose event time the watermark had reached when they came are left out and
        counted (``towpath_late_rows``). Rows are kept until no partner can come in time; the state table is ``join``.
        Known as interval join. Rows join within the same window if its start is part of both keys. The event time of a
        pair is the later one of its rows: ``pl.max_horizontal`` of both.

        Args:
            right: rows by as many key columns of the same types.
            on: column of the event time in ms (Int64) on both sides, or one for each.
            within: least and greatest event time of the right row minus that of the left one, in ms: ``(0, 10_000)``
                joins with what comes in the next ten seconds, ``(-5_000, 0)`` with what came in the last five.
            columns: the right side's columns that come out, or column that comes out → column of the right side.
        """
        label = f"join in stage {self._options.name!r}" if self._options else "join"
        taken = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}
        times = (on, on) if isinstance(on, str) else on
        ours = JoinSide(self._places, self._keys, times[0])
        theirs = JoinSide(right._places, right._keys, times[1])
        check_sides(ours, theirs, taken, within, label)
        options = self._options or stage_options("join", 1, "rocksdb")
        place = cut(joined_rows(ours, theirs, taken), Edge.HASH, self._keys, options, self._partitions)
        place = place.apply(RequireEventTimeStep(TIME))
        step = join_step(place, ours, taken, within)
        result = place.apply(step)
        kept_columns(place, self._keys, Kept(step.name, step.pairs, step.reads), OF_RIGHT)
        return Stream(result)

    def _schema(self) -> Mapping[str, Any]:
        return self._places[0].schema

    def process(
        self,
        function: RowFunction | TimedRowFunction,
        *,
        schema: Mapping[str, Any],
        state: Any = int,
        name: str | None = None,
        on_timer: TimerFunction | None = None,
        ttl_ms: int | None = None,
        ttl_on: str | None = None,
    ) -> Stream:
        """Run a function on each row, with a value of state for the row's key.

        With ``on_timer`` the function gets a third argument, :class:`~towpath.operators.timed_process.KeyTimers`, by
        which it sets timers of event time for the row's key. They are part of state and move with it; those that the
        watermark had reached when a row came go off before that row. The table then holds value, timers and time of
        the newest row of each key.

        Args:
            function: ``(row, state) → rows``, each a dict; see :class:`~towpath.operators.process.KeyState`. With
                ``on_timer``: ``(row, state, timers) → rows``.
            schema: columns that come out → Polars type.
            state: type of the value: whatever JSON can hold with a type (int, str, a msgspec.Struct, list[int] …).
            name: of the step, its table, and its stage if that has no name yet; by default the function's.
            on_timer: ``(key columns, time in ms, state, timers) → rows``, when a timer goes off.
            ttl_ms: see :meth:`aggregate`; a timer that goes off counts as a row of its time, and timers of a key go
                away with its value.
            ttl_on: see :meth:`aggregate`.
        """
        label = name or _name_of(function)
        check_names(schema, label)
        place = self._enter(label)
        if on_timer is None and ttl_ms is None and ttl_on is None:
            plain = cast(RowFunction, function)
            return Stream(place.apply(ProcessStep(self._keys, plain, dict(schema), state, label)))
        timed = timed_process(
            place,
            self._keys,
            function,
            on_timer,
            schema=schema,
            state=state,
            name=label,
            ttl_ms=ttl_ms,
            ttl_on=ttl_on,
        )
        return Stream(timed)

    def _keep(self, place: Place, kept: Kept, expiry: Expiry | None = None) -> Stream:
        return Stream(keep(place, self._keys, kept, expiry, _TABLE))

    def _enter(self, default_stage: str) -> Place:
        """The stage of the keyed step: this one if rows are where they belong, else a new one."""
        if self._options is None and len(self._places) == 1 and self._places[0].placed_by == self._keys:
            return self._places[0]
        options = self._options or stage_options(default_stage, 1, "rocksdb")
        return cut(self._places, Edge.HASH, self._keys, options, self._partitions)


class WindowedStream:
    """Rows of one key and one window belong together."""

    def __init__(
        self,
        enter: Callable[[str], Place],
        keys: tuple[str, ...],
        window: Window | Session | Until | Every,
        on: str,
        late: LateTo | None = None,
        *,
        updates: bool = False,
    ) -> None:
        """Made by :meth:`KeyedStream.window`; ``enter`` gives the stage of the step of a name."""
        self._enter = enter
        self._keys = keys
        self._window = window
        self._on = on
        self._late = late
        self._updates = updates

    def late_to(self, topic: str, *, key: Columns | None = None, partitions: int | None = None) -> WindowedStream:
        """Also write rows that come too late for their window to a topic, each a JSON object, besides counting them.

        Fields: all columns that go in, those that a sink adds, and the bounds of the window that was missed, if
        windows are not sessions; of hopping windows a row is written for each that it was too late for. A row is
        taken in, or written there, once. One step has the topic to itself.

        Args:
            topic: name in Kafka; made if it does not exist.
            key: column(s) whose text is the record's key; by default the stream's key, () for none.
            partitions: partition count, by default the query's.
        """
        to = LateTo(topic, None if key is None else column_names(key), partitions)
        return WindowedStream(self._enter, self._keys, self._window, self._on, to, updates=self._updates)

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
        if isinstance(self._window, Every):
            return self._every(self._window, columns)
        make = changed if self._updates else aggregated
        return self._keep("aggregate", lambda place, keys: make(place, keys, columns, None))

    def latest(self, by: Columns) -> Stream:
        """The newest row of each key and window; see :meth:`KeyedStream.latest`."""
        return self._keep("latest", lambda place, keys: latest(place, keys, by))

    def top(
        self, n: int, by: Columns, *, descending: bool | Sequence[bool] = True, rank: str = "rank_number"
    ) -> Stream:
        """The first ``n`` rows of each key and window; see :meth:`KeyedStream.top`."""
        return self._keep("top", lambda place, keys: top(place, keys, n, by, descending, rank))

    def highest(self, by: str) -> Stream:
        """All rows of each key and window that have the greatest value of a column.

        Raises:
            QueryError: updates are wanted: rows that were the highest for a while could not be taken back.
        """
        if self._updates:
            raise QueryError("highest with emit='update': rows that are no longer the highest would stay; use top")
        return self._keep("highest", lambda place, keys: highest(place, keys, by))

    def _keep(self, name: str, make: Callable[[Place, Sequence[str]], Kept]) -> Stream:
        if isinstance(self._window, Session | Every):
            kind = "sessions" if isinstance(self._window, Session) else "windows of so many rows"
            raise QueryError(f"{name} over {kind}: only count and aggregate are there for them")
        place = self._timed(name).apply(AssignWindowsStep(self._window, self._on))
        keys = (*self._keys, WINDOW_END)
        kept = make(place, (*keys, WINDOW_START))
        columns = kept_columns(place, keys, kept)
        schema = {key: place.schema[key] for key in self._keys}
        late = self._late_output(place)
        step = WindowedRowsStep(
            schema, self._window, kept.reduction, columns, kept.reads, kept.name, late, updates=self._updates
        )
        return Stream(place.apply(step))

    def _sessions(self, gap_ms: int, columns: Mapping[str, Aggregate]) -> Stream:
        place = self._timed("sessions")
        reduction = Sessions(gap_ms, self._on, Aggregates(columns))
        kept = sessions(place, (*self._keys, WINDOW_START, WINDOW_END), reduction, columns)
        schema = {key: place.schema[key] for key in self._keys}
        found = kept_columns(place, self._keys, kept)
        late = self._late_output(place)
        return Stream(place.apply(SessionsStep(schema, reduction, found, kept.reads, kept.name, late)))

    def _every(self, window: Every, columns: Mapping[str, Aggregate]) -> Stream:
        if self._late is not None:
            raise QueryError("window(every(…)).late_to(…): no row is late for a window of so many rows")
        place = self._enter("aggregate")
        kept = aggregated(place, self._keys, columns, None)
        reduction = CountWindows(window.rows, window.panes, Aggregates(columns))
        return Stream(keep(place, self._keys, kept._replace(reduction=reduction), None))

    def _late_output(self, place: Place) -> SideOutput | None:
        if self._late is None:
            return None
        return self._late.output(self._keys, place.schema, place.graph.partitions, place.label("window"))

    def _timed(self, name: str) -> Place:
        """The stage of the step, where rows have an event time."""
        place = self._enter(name)
        taken = [column for column in (WINDOW_START, WINDOW_END) if column in place.schema and column != self._on]
        if taken:
            raise QueryError(f"{place.label('window')}: the rows have a column {taken[0]!r} already; rename it")
        return place.apply(RequireEventTimeStep(self._on))


_OF_TABLE = "of_table"
_TABLE = "table."
_OF_TIME = "of_table.time"
"""Columns of an enrichment's edge: whether a row is the table's, the table's columns, and the time of a row."""


def _typed(schema: Mapping[str, Any], columns: Sequence[str]) -> str:
    return ", ".join(f"{name} {schema[name]}" for name in columns)


def _chosen(given: Sequence[str | Written], named: Mapping[str, Written]) -> tuple[Expression, ...]:
    return (*expressions(given), *(expression(written).alias(name) for name, written in named.items()))


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
