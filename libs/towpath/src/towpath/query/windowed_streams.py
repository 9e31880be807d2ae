"""Streams by key and window: what can be done with the rows that belong to one window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from towpath.operators.aggregates import Aggregate, Aggregates
from towpath.operators.count_windows import CountWindows
from towpath.operators.pairs import How
from towpath.operators.sessions import Sessions
from towpath.operators.windows import WINDOW_END, WINDOW_START, Every, Session, Until, Window
from towpath.query.agg import count
from towpath.query.errors import QueryError
from towpath.query.expiring import keep
from towpath.query.joins import Taken
from towpath.query.keyed_places import KeyedPlaces
from towpath.query.place import Place
from towpath.query.reductions import (
    Columns,
    Kept,
    aggregated,
    changed,
    column_names,
    highest,
    kept_columns,
    latest,
    top,
)
from towpath.query.side_outputs import LateTo, SideOutput
from towpath.query.window_joins import window_join
from towpath.query.windowed_steps import AssignWindowsStep, RequireEventTimeStep, SessionsStep, WindowedRowsStep

if TYPE_CHECKING:
    from towpath.query.streams import Stream


class WindowedStream:
    """Rows of one key and one window belong together."""

    def __init__(
        self,
        rows: KeyedPlaces,
        stream: Callable[[Place], Stream],
        window: Window | Session | Until | Every,
        on: str,
        late: LateTo | None = None,
        *,
        updates: bool = False,
    ) -> None:
        """Made by :meth:`towpath.query.KeyedStream.window`; ``stream``: makes the streams behind windows."""
        self._rows = rows
        self._stream = stream
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
        return WindowedStream(self._rows, self._stream, self._window, self._on, to, updates=self._updates)

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
        """The newest row of each key and window; see :meth:`towpath.query.KeyedStream.latest`."""
        return self._keep("latest", lambda place, keys: latest(place, keys, by))

    def top(
        self, n: int, by: Columns, *, descending: bool | Sequence[bool] = True, rank: str = "rank_number"
    ) -> Stream:
        """The first ``n`` rows of each key and window; see :meth:`towpath.query.KeyedStream.top`."""
        return self._keep("top", lambda place, keys: top(place, keys, n, by, descending, rank))

    def highest(self, by: str) -> Stream:
        """All rows of each key and window that have the greatest value of a column.

        Raises:
            QueryError: updates are wanted: rows that were the highest for a while could not be taken back.
        """
        if self._updates:
            raise QueryError("highest with emit='update': rows that are no longer the highest would stay; use top")
        return self._keep("highest", lambda place, keys: highest(place, keys, by))

    def join(self, right: WindowedStream, *, columns: Taken, how: How = "inner") -> Stream:
        """Join rows with those of another stream that have the same key and are in the same window.

        Columns that come out: the key, ``window_start`` where windows have a size, ``window_end``, those of this
        stream, and the right one's named ones; a row for every pair when the window closes, or with ``emit="update"``
        when the later of the two has come. Rows that come too late for their window are left out and counted
        (``towpath_late_rows``). The state table is ``join``: per key and window a list of the rows of both sides.

        Args:
            right: rows by as many key columns of the same types, in the same windows.
            columns: the right side's columns that come out, or column that comes out → column of the right side.
            how: ``left``: rows of this stream without a partner in their window come out, too, with nulls for the
                right side's columns, when the window closes.

        Raises:
            QueryError: windows, keys or columns do not fit, or late rows are to be written.
        """
        ours, theirs = self._window, right._window
        if isinstance(ours, Session | Every) or isinstance(theirs, Session | Every):
            raise QueryError("join over sessions or windows of so many rows: they begin and end apart for either side")
        if ours != theirs and not (isinstance(ours, Until) and isinstance(theirs, Until)):
            raise QueryError(
                f"join: rows meet in the same window, but the left side has {ours}, the right side {theirs}"
            )
        if self._updates != right._updates:
            raise QueryError("join: one side has emit='update', the other has not; say it for both")
        if self._late is not None or right._late is not None:
            raise QueryError("join(…) behind late_to(…): late rows of joins are counted, but not written; leave it out")
        times, updates = (self._on, right._on), self._updates
        return self._stream(window_join(self._rows, right._rows, ours, times, columns, how, updates=updates))

    def _keep(self, name: str, make: Callable[[Place, Sequence[str]], Kept]) -> Stream:
        if isinstance(self._window, Session | Every):
            kind = "sessions" if isinstance(self._window, Session) else "windows of so many rows"
            raise QueryError(f"{name} over {kind}: only count and aggregate are there for them")
        place = self._timed(name).apply(AssignWindowsStep(self._window, self._on))
        keys = (*self._rows.keys, WINDOW_END)
        kept = make(place, (*keys, WINDOW_START))
        columns = kept_columns(place, keys, kept.reduction, kept.name)
        schema = {key: place.schema[key] for key in self._rows.keys}
        late = self._late_output(place)
        step = WindowedRowsStep(
            schema, self._window, kept.reduction, columns, kept.reads, kept.name, late, updates=self._updates
        )
        return self._stream(place.apply(step))

    def _sessions(self, gap_ms: int, columns: Mapping[str, Aggregate]) -> Stream:
        place = self._timed("sessions")
        name, keys = "sessions", self._rows.keys
        reads = aggregated(place, (*keys, WINDOW_START, WINDOW_END), columns, None).reads | {self._on}
        sessions = Sessions(gap_ms, self._on, Aggregates(columns))
        kept = kept_columns(place, keys, sessions, name)
        schema = {key: place.schema[key] for key in keys}
        late = self._late_output(place)
        return self._stream(place.apply(SessionsStep(schema, sessions, kept, reads, name, late)))

    def _every(self, window: Every, columns: Mapping[str, Aggregate]) -> Stream:
        if self._late is not None:
            raise QueryError("window(every(…)).late_to(…): no row is late for a window of so many rows")
        place = self._rows.enter("aggregate")
        kept = aggregated(place, self._rows.keys, columns, None)
        reduction = CountWindows(window.rows, window.panes, Aggregates(columns))
        return self._stream(keep(place, self._rows.keys, kept._replace(reduction=reduction), None))

    def _late_output(self, place: Place) -> SideOutput | None:
        if self._late is None:
            return None
        return self._late.output(self._rows.keys, place.schema, place.graph.partitions, place.label("window"))

    def _timed(self, name: str) -> Place:
        """The stage of the step, where rows have an event time."""
        place = self._rows.enter(name)
        taken = [column for column in (WINDOW_START, WINDOW_END) if column in place.schema and column != self._on]
        if taken:
            raise QueryError(f"{place.label('window')}: the rows have a column {taken[0]!r} already; rename it")
        return place.apply(RequireEventTimeStep(self._on))
