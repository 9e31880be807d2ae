"""Streams by key: what can be done with all rows that a key has."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, cast

from towpath.operators.aggregates import Aggregate
from towpath.operators.expiry import Expiry
from towpath.operators.process import RowFunction
from towpath.operators.timed_process import TimedRowFunction, TimerFunction
from towpath.operators.windows import Every, Session, Until, Window
from towpath.query.agg import count
from towpath.query.cep import AfterMatch, Measure, Pattern
from towpath.query.check import check_key, check_names
from towpath.query.enriching import enriched
from towpath.query.errors import QueryError
from towpath.query.expiring import DistinctStep, expiring, keep
from towpath.query.interval_joins import interval_join
from towpath.query.joins import Taken
from towpath.query.keyed_places import KeyedPlaces
from towpath.query.keyed_steps import CountStep, ProcessStep
from towpath.query.matching import Search
from towpath.query.names import name_of
from towpath.query.place import Place, require_event_time, stage_options
from towpath.query.reductions import Columns, Kept, aggregated, latest, top
from towpath.query.steps import RequireKeyStep
from towpath.query.timed_process import timed_process
from towpath.query.windowed_streams import WindowedStream

if TYPE_CHECKING:
    from towpath.query.streams import Stream


class KeyedStream:
    """Rows of one key belong together: what keyed steps work on."""

    def __init__(self, rows: KeyedPlaces, stream: Callable[[Place], Stream]) -> None:
        """Made by :meth:`towpath.query.Stream.key_by`; ``stream``: makes the streams behind keyed steps."""
        self._rows = rows
        self._stream = stream

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
        rows = replace(self._rows, options=options, partitions=partitions or self._rows.partitions)
        return KeyedStream(rows, self._stream)

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
        if into in self._rows.keys:
            raise QueryError(f"count(into={into!r}): the key has that name; choose another")
        check_names([into], "count")
        place = self._rows.enter("count")
        if ttl_ms is None and ttl_on is None:
            return self._stream(place.apply(CountStep(self._rows.keys, into, emit == "each")))
        if emit == "each":
            raise QueryError("count(emit='each', ttl_ms=…): a count of each row does not go away; use emit='batch'")
        place, expiry = expiring(place, ttl_ms, ttl_on, "count")
        return self._keep(place, aggregated(place, self._rows.keys, {into: count()}, None)._replace(name=into), expiry)

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
        place, expiry = expiring(self._rows.enter("aggregate"), ttl_ms, ttl_on, "aggregate")
        return self._keep(place, aggregated(place, self._rows.keys, columns, previous), expiry)

    def latest(self, by: Columns, *, ttl_ms: int | None = None, ttl_on: str | None = None) -> Stream:
        """The newest row of each key: the one with the greatest ``by``, and of equal ones that which came last.

        Columns that come out: those that go in; a row per distinct key and batch for which there is a newer one. Also
        known as deduplication that keeps the last row. The state table is ``latest``. For ``ttl_ms`` and ``ttl_on`` see
        :meth:`aggregate`.
        """
        place, expiry = expiring(self._rows.enter("latest"), ttl_ms, ttl_on, "latest")
        return self._keep(place, latest(place, self._rows.keys, by), expiry)

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
        place, expiry = expiring(self._rows.enter("top"), ttl_ms, ttl_on, "top")
        return self._keep(place, top(place, self._rows.keys, n, by, descending, rank), expiry)

    def distinct(self, *columns: str, ttl_ms: int | None = None, ttl_on: str | None = None) -> Stream:
        """The first row of each key, or of each value of some columns within a key; the others are left out.

        Columns that come out: those that go in. The state table is ``distinct``: an entry for each of what was seen.

        Args:
            columns: whose values count besides the key.
            ttl_ms: what was seen is forgotten when so much event time has gone by since its newest row, whether that
                passed or not; see :meth:`aggregate`.
            ttl_on: see :meth:`aggregate`.
        """
        place, expiry = expiring(self._rows.enter("distinct"), ttl_ms, ttl_on, "distinct")
        keys = tuple(dict.fromkeys((*self._rows.keys, *columns)))
        check_key(keys, place.schema, place.label("distinct"))
        if columns:
            place = place.apply(RequireKeyStep(columns))
        return self._stream(place.apply(DistinctStep(keys, expiry)))

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
            return WindowedStream(self._rows, self._stream, window, "")
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
        for place in self._rows.places:
            require_event_time(place, time, place.label("window"))
        return WindowedStream(self._rows, self._stream, window, time, updates=emit == "update")

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
        rows = self._rows
        search = Search(rows.places, rows.keys, pattern, on, after_match, measures)
        fit = replace(rows, places=tuple(map(search.before_edge, rows.places)))
        return self._stream(search.behind_edge(fit.enter("match")))

    def enrich(
        self, table: KeyedStream, *, columns: Taken, ttl_ms: int | None = None, ttl_on: str | None = None
    ) -> Stream:
        """Join rows with the newest row that a table has for their key; they wait in state until there is one.

        Columns that come out: those that go in, and the table's named ones, which take the place of those of the same
        name. Rows meet the table's row as it is when they are processed, or, where they had to wait, the first one. The
        state table is ``enrich``: per key the table's row, or a list of the rows that wait. Known as stream–table join.

        Args:
            table: rows by as many key columns of the same types; the newest one of each key counts.
            columns: the table's columns that come out, or column that comes out → the table's column.
            ttl_ms: the table's row of a key, or the rows that wait, go away when so much event time has gone by since
                the newest row of either side; see :meth:`aggregate`.
            ttl_on: column of that time on both sides; by default the event time of their sources.
        """
        return self._stream(enriched(self._rows, table._rows, columns, ttl_ms, ttl_on))

    def join(self, right: KeyedStream, *, on: str | tuple[str, str], within: tuple[int, int], columns: Taken) -> Stream:
        """Join rows with those of another stream that have the same key and are near in event time.

        Columns that come out: those of this stream, and the right one's named ones; a row for every pair, when the
        later of the two has come. Rows whose event time the watermark had reached when they came are left out and
        counted (``towpath_late_rows``). Rows are kept until no partner can come in time; the state table is ``join``.
        Known as interval join; for rows of the same window see :meth:`WindowedStream.join`. The event time of a
        pair is the later one of its rows: ``pl.max_horizontal`` of both.

        Args:
            right: rows by as many key columns of the same types.
            on: column of the event time in ms (Int64) on both sides, or one for each.
            within: least and greatest event time of the right row minus that of the left one, in ms: ``(0, 10_000)``
                joins with what comes in the next ten seconds, ``(-5_000, 0)`` with what came in the last five.
            columns: the right side's columns that come out, or column that comes out → column of the right side.
        """
        return self._stream(interval_join(self._rows, right._rows, on, within, columns))

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
        label = name or name_of(function)
        check_names(schema, label)
        place = self._rows.enter(label)
        if on_timer is None and ttl_ms is None and ttl_on is None:
            plain = cast(RowFunction, function)
            return self._stream(place.apply(ProcessStep(self._rows.keys, plain, dict(schema), state, label)))
        timed = timed_process(
            place,
            self._rows.keys,
            function,
            on_timer,
            schema=schema,
            state=state,
            name=label,
            ttl_ms=ttl_ms,
            ttl_on=ttl_on,
        )
        return self._stream(timed)

    def _keep(self, place: Place, kept: Kept, expiry: Expiry | None = None) -> Stream:
        return self._stream(keep(place, self._rows.keys, kept, expiry))
