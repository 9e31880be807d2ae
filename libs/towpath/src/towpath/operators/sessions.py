"""Sessions of a key: rows that follow one another within a gap of event time.

All open sessions of a key are one entry of state. A batch's rows are sessions of one row each; which of them become one
is said in :mod:`towpath.operators.session_rows`. Known as session windows: Akidau et al., "The Dataflow Model", VLDB
2015, section 2.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from statemgr.watermarks import NEVER
from towpath.operators.aggregates import Aggregates
from towpath.operators.keyed_rows import GROUP, KeptTables, grouped, rows_of
from towpath.operators.keys import key_bytes, key_frame
from towpath.operators.late import COUNTED, LateRows
from towpath.operators.session_rows import AT, CAME, FIRST, LAST, SESSION, numbered
from towpath.operators.timed import came_at
from towpath.operators.timers import TaskTimers
from towpath.operators.windows import WINDOW_END, WINDOW_START
from towpath.query.plan import PARTITION, OperatorContext


class Sessions:
    """Merges sessions.

    A row is late if a session of its own had ended when it came, and it did not come to one that was open.
    """

    def __init__(self, gap_ms: int, on: str, aggregates: Aggregates) -> None:
        """``on``: column of the event time in ms (Int64)."""
        self.gap_ms = gap_ms
        self.on = on
        self.aggregates = aggregates

    def rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A session for each row."""
        time = pl.col(self.on)
        own = frame.select(GROUP, time.alias(FIRST), time.alias(LAST))
        each = frame.with_columns(pl.int_range(pl.len(), dtype=pl.UInt32).alias(GROUP))
        return own.hstack(self.aggregates.rows(each).drop(GROUP))

    def step(self, before: pl.DataFrame, new: pl.DataFrame, came: pl.Series) -> tuple[pl.DataFrame, pl.Series]:
        """Take rows in.

        Args:
            before: sessions that are kept.
            new: rows, in the order in which they came.
            came: the watermark at which each of them came.

        Returns:
            The sessions to keep, and which of the new rows are late.
        """
        known = pl.repeat(None, before.height, dtype=pl.Int64, eager=True)
        rows = numbered(pl.concat([before, new]).with_columns(pl.concat([known, came]).alias(CAME)), self.gap_ms)
        sessions = (
            rows.drop_nulls(SESSION)
            .group_by(GROUP, SESSION, maintain_order=True)
            .agg(pl.col(FIRST).min(), pl.col(LAST).max(), *self.aggregates.merging(new.schema))
        )
        late = rows.sort(AT).slice(before.height).get_column(SESSION).is_null()
        return sessions.drop(SESSION), late

    def results(self, sessions: pl.DataFrame) -> pl.DataFrame:
        """Sessions as they go out, with ``__group``."""
        end = pl.col(LAST) + self.gap_ms
        bounds = (GROUP, pl.col(FIRST).alias(WINDOW_START), end.alias(WINDOW_END))
        return sessions.select(*bounds, *self.aggregates.finished)


class SessionWindows:
    """Keeps sessions per key, which go out when they end.

    Output columns: the key, ``window_start``, ``window_end`` (event time of the last row, and the gap), the aggregates.
    """

    def __init__(
        self,
        keys: Mapping[str, Any],
        sessions: Sessions,
        kept: Mapping[str, Any],
        table: str,
        late: LateRows = COUNTED,
    ) -> None:
        """Fix the sessions.

        Args:
            keys: key column → Polars type.
            sessions: what is kept.
            kept: columns of a session in state → Polars type.
            table: name of the state table.
            late: what becomes of late rows.
        """
        self._schema = dict(keys)
        self._keys = list(keys)
        self._sessions = sessions
        self._kept = dict(kept)
        self._last = list(self._kept).index(LAST)
        self.state_table = table
        self.timers = TaskTimers(table, lambda _, sessions: min(map(self._end, sessions), default=NEVER))
        self._late = late

    def state_keys(self, frame: pl.DataFrame) -> list[bytes]:
        """See :class:`towpath.operators.keyed.Keyed`."""
        return key_bytes(frame, self._keys)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Take rows in; nothing comes out before a session ends."""
        groups, frame = grouped(frame, self._keys)
        keys = key_bytes(groups, self._keys)
        tables = KeptTables(groups, keys, context, self.state_table)
        new = self._sessions.rows(frame)
        sessions, late = self._sessions.step(tables.read(new.schema), new, came_at(frame))
        tables.write(sessions)
        self._late.report(frame.filter(late), context)
        self._set_timers(frame.filter(~late), groups.get_column(PARTITION).to_list(), keys, context)
        return self._rows([], rows_of([], self._kept, self.state_table), 0)

    def _set_timers(
        self, rows: pl.DataFrame, partitions: Sequence[int], keys: Sequence[bytes], context: OperatorContext
    ) -> None:
        """A key is looked at when a session of the earliest of its new rows would end."""
        on = self._sessions.on
        for group, time in rows.group_by(GROUP).agg(pl.col(on).min()).sort(GROUP).select(GROUP, on).iter_rows():
            self.timers.of(partitions[group], context).add(keys[group], time + self._sessions.gap_ms)

    def waits_for(self, rows: pl.DataFrame) -> pl.Series:
        """See :class:`towpath.operators.timed.Timed`: the earliest end of each row's session."""
        return rows.get_column(self._sessions.on) + self._sessions.gap_ms

    def close(self, partition: int, watermark_ms: int, context: OperatorContext, most: int) -> pl.DataFrame:
        """Sessions that end at the watermark or before, which are deleted."""
        timers = self.timers.of(partition, context)
        keys = timers.take(watermark_ms, most)
        table = context.tasks[partition].table(self.state_table)
        before = table.get_many(keys)
        after: list[list[list[Any]] | None] = []
        for key, value in zip(keys, before, strict=True):
            open_ = [session for session in value or () if self._end(session) > watermark_ms]
            if open_:
                timers.add(key, min(map(self._end, open_)))
            after.append(open_ or None)
        table.put_many(keys, after)
        sessions = rows_of(before, self._kept, self.state_table)
        ended = sessions.filter(pl.col(LAST) + self._sessions.gap_ms <= watermark_ms)
        return self._rows(keys, ended, partition)

    def _end(self, session: list[Any]) -> int:
        return int(session[self._last]) + self._sessions.gap_ms

    def _rows(self, keys: Sequence[bytes], sessions: pl.DataFrame, partition: int) -> pl.DataFrame:
        owners = key_frame(keys, self._schema).with_row_index(GROUP)
        found = self._sessions.results(sessions)
        columns = [name for name in found.columns if name != GROUP]
        joined = found.join(owners, on=GROUP, how="left", maintain_order="left")
        return joined.select(*self._keys, *columns, pl.lit(partition, pl.Int32).alias(PARTITION))
