"""Sessions of a key: rows that follow one another within a gap of event time.

All open sessions of a key are one entry of state. A batch's rows are sessions of one row each; those of a key that are
no further apart than the gap become one, in columns: sorted by start, a session begins where the gap to the latest row
so far is larger. Known as session windows: Akidau et al., "The Dataflow Model", VLDB 2015, section 2.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from statemgr.watermarks import NEVER
from towpath.operators.aggregates import Aggregates
from towpath.operators.keyed_rows import GROUP, grouped, reduced, rows_of
from towpath.operators.keys import key_bytes, key_frame
from towpath.operators.late import COUNTED, LateRows
from towpath.operators.timers import TaskTimers
from towpath.operators.windows import WINDOW_END, WINDOW_START
from towpath.query.plan import PARTITION, WATERMARK, OperatorContext

FIRST, LAST, ROWS, IN_TIME = "first", "last", "rows", "in_time"
"""Columns of a session in state, before those of the aggregates: event time of its first and last row, number of rows,
and whether any of these came in time."""


class Sessions:
    """Merges sessions; see :class:`towpath.operators.keyed_rows.Reduction`. What goes out are sessions that were late.

    A row is late if a session of its own had ended when it came; a session of late rows alone is left out.
    """

    def __init__(self, gap_ms: int, on: str, aggregates: Aggregates) -> None:
        """``on``: column of the event time in ms (Int64)."""
        self.gap_ms = gap_ms
        self.on = on
        self.aggregates = aggregates

    def rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """A session for each row."""
        time = pl.col(self.on)
        in_time = time + self.gap_ms > pl.col(WATERMARK) if WATERMARK in frame.columns else pl.lit(value=True)
        own = frame.select(
            GROUP, time.alias(FIRST), time.alias(LAST), pl.lit(1, pl.Int64).alias(ROWS), in_time.alias(IN_TIME)
        )
        each = frame.with_columns(pl.int_range(pl.len(), dtype=pl.UInt32).alias(GROUP))
        return own.hstack(self.aggregates.rows(each).drop(GROUP))

    def step(self, before: pl.DataFrame, new: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """The sessions of each key, and those of late rows alone."""
        rows = pl.concat([before, new]).sort(GROUP, FIRST)
        reached = pl.col(LAST).cum_max().shift(1).over(GROUP)
        begins = (pl.col(FIRST) - reached > self.gap_ms).fill_null(value=False)
        number = rows.select(begins.cum_sum().over(GROUP).alias(_NUMBER)).to_series()
        merged = (
            rows.with_columns(number)
            .group_by(GROUP, _NUMBER, maintain_order=True)
            .agg(
                pl.col(FIRST).min(),
                pl.col(LAST).max(),
                pl.col(ROWS).sum(),
                pl.col(IN_TIME).any(),
                *self.aggregates.merging(new.schema),
            )
            .drop(_NUMBER)
        )
        return merged.filter(IN_TIME), merged.filter(~pl.col(IN_TIME))

    def rows_in(self, late: pl.DataFrame, frame: pl.DataFrame) -> pl.DataFrame:
        """The rows of a batch that are in the sessions which :meth:`step` left out."""
        if not late.height:
            return frame.clear()
        spans = late.select(GROUP, pl.col(FIRST).alias(_FROM), pl.col(LAST).alias(_TO))
        joined = frame.join(spans, on=GROUP, how="inner", maintain_order="left")
        return joined.filter(pl.col(self.on).is_between(pl.col(_FROM), pl.col(_TO))).drop(_FROM, _TO)

    def results(self, sessions: pl.DataFrame) -> pl.DataFrame:
        """Sessions as they go out, with ``__group``."""
        end = pl.col(LAST) + self.gap_ms
        bounds = (GROUP, pl.col(FIRST).alias(WINDOW_START), end.alias(WINDOW_END))
        return sessions.select(*bounds, *self.aggregates.finished)


_NUMBER = "__number"
_FROM, _TO = "__from", "__to"


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
        late = reduced(frame, groups, keys, self._sessions, context, self.state_table)
        self._late.report(self._sessions.rows_in(late, frame), context)
        first = frame.group_by(GROUP).agg(pl.col(self._sessions.on).min()).sort(GROUP).get_column(self._sessions.on)
        partitions = groups.get_column(PARTITION).to_list()
        for partition, key, time in zip(partitions, keys, first.to_list(), strict=True):
            self.timers.of(partition, context).add(key, time + self._sessions.gap_ms)
        return self._rows([], rows_of([], self._kept, self.state_table), 0)

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
