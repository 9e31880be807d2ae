"""Keyed operators over windows of event time: rows are kept per key and window, and go out when the window closes.

An entry of state belongs to one key and one window, under the key's text with the window's end as its last part. So the
timers are in the state: which windows are open is read from it when a task comes, and moves with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec
import polars as pl

from statemgr.state import TaskState
from towpath.operators.growing_rows import Growing, piled
from towpath.operators.keyed_rows import GROUP, Reduction, grouped, of_groups, reduced, rows_of
from towpath.operators.keys import key_bytes, key_frame
from towpath.operators.late import COUNTED, LateRows
from towpath.operators.timers import TaskTimers
from towpath.operators.windows import WINDOW_END, WINDOW_START, Until, Window
from towpath.query.plan import PARTITION, WATERMARK, OperatorContext


@runtime_checkable
class Closing(Protocol):
    """What makes its results when a window closes, and nothing before: they would cost too much."""

    def results(self, rows: pl.DataFrame) -> pl.DataFrame:
        """What goes out of all rows that were kept."""
        ...


class WindowedRows:
    """Runs a :class:`~towpath.operators.keyed_rows.Reduction` per key and window.

    Where rows pile up it runs a :class:`~towpath.operators.growing_rows.Growing`, and they are appended to lists.

    Output columns: the key, ``window_start`` where windows have a size, ``window_end``, and what the reduction gives
    for all rows of the window, in the order in which windows end. They have no emit time: what made them possible is
    the watermark.

    With ``updates`` what the reduction gives for each batch goes out instead, and nothing when a window closes.

    A row is late for a window whose end the watermark had reached when the row came: it is left out.
    """

    def __init__(
        self,
        keys: Mapping[str, Any],
        window: Window | Until,
        reduction: Reduction | Growing,
        kept: Mapping[str, Any],
        table: str,
        *,
        late: LateRows = COUNTED,
        updates: bool = False,
    ) -> None:
        """Fix the window.

        Args:
            keys: key column → Polars type.
            window: of event time; rows come with ``window_end``.
            reduction: what is kept of a window's rows.
            kept: columns of the rows that are kept → Polars type.
            table: name of the state table, of lists of rows where they pile up.
            late: what becomes of late rows, each with the bounds of the window that it missed.
            updates: whether rows go out when they change, and not when a window closes.
        """
        self._schema = {**keys, WINDOW_END: pl.Int64()}
        self._keys = list(self._schema)
        end = pl.col(WINDOW_END)
        self._bounds = [(end - window.size_ms).alias(WINDOW_START), end] if isinstance(window, Window) else [end]
        self._reduction = reduction
        self._kept = dict(kept)
        self.state_table = table
        self.timers = TaskTimers(table, lambda key, _: _end(key))
        self._late = late
        self._updates = updates

    def state_keys(self, frame: pl.DataFrame) -> list[bytes]:
        """See :class:`towpath.operators.keyed.Keyed`."""
        return key_bytes(frame, self._keys)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Take rows in; nothing comes out before a window closes, or else what has changed."""
        groups, frame = grouped(self._in_time(frame, context), self._keys)
        keys = key_bytes(groups, self._keys)
        found = self._taken_in(frame, groups, keys, context)
        ends = groups.get_column(WINDOW_END).to_list()
        for partition, end, key in zip(groups.get_column(PARTITION).to_list(), ends, keys, strict=True):
            self.timers.of(partition, context).add(key, end)
        if self._updates:
            return of_groups(found, groups, [*self._keys[:-1], *self._bounds])
        return self._rows([], [], 0)

    def waits_for(self, rows: pl.DataFrame) -> pl.Series:
        """See :class:`towpath.operators.timed.Timed`: the end of each row's window."""
        return rows.get_column(WINDOW_END)

    def close(self, partition: int, watermark_ms: int, context: OperatorContext, most: int) -> pl.DataFrame:
        """Rows of windows that end at the watermark or before, whose state is deleted."""
        keys = self.timers.of(partition, context).take(watermark_ms, most)
        state = context.tasks[partition]
        values = [] if self._updates else self._values(state, keys)
        state.delete_many(self.state_table, keys)
        return pl.DataFrame() if self._updates else self._rows(keys, values, partition)

    def _taken_in(
        self, frame: pl.DataFrame, groups: pl.DataFrame, keys: list[bytes], context: OperatorContext
    ) -> pl.DataFrame:
        if isinstance(self._reduction, Growing):
            return piled(frame, groups, keys, self._reduction, context, self.state_table)
        return reduced(frame, groups, keys, self._reduction, context, self.state_table)

    def _values(self, state: TaskState, keys: Sequence[bytes]) -> Sequence[Any]:
        """All rows that are kept of each window."""
        if isinstance(self._reduction, Growing):
            return state.lists(self.state_table).get_many(keys)
        return state.table(self.state_table).get_many(keys)

    def _in_time(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        if WATERMARK not in frame.columns:
            return frame
        in_time = frame.get_column(WINDOW_END) > frame.get_column(WATERMARK)
        frame = frame.drop(WATERMARK)
        if in_time.all():
            return frame
        self._late.report(frame.filter(~in_time).with_columns(self._bounds), context)
        return frame.filter(in_time)

    def _rows(self, keys: Sequence[bytes], values: Sequence[Any], partition: int) -> pl.DataFrame:
        found = self._results(rows_of(values, self._kept, self.state_table))
        owners = key_frame(keys, self._schema).with_row_index(GROUP)
        found = found.sort(GROUP, maintain_order=True)  # in the order in which windows end
        joined = found.join(owners, on=GROUP, how="left", maintain_order="left")
        return joined.select(
            *self._keys[:-1],
            *self._bounds,
            pl.exclude(GROUP, *self._keys),
            pl.lit(partition, pl.Int32).alias(PARTITION),
        )

    def _results(self, rows: pl.DataFrame) -> pl.DataFrame:
        """What the reduction gives for all rows of windows."""
        if isinstance(self._reduction, Closing):
            return self._reduction.results(rows)
        if isinstance(self._reduction, Growing):
            return self._reduction.grow(rows.clear(), rows).found
        _, found = self._reduction.step(rows.clear(), rows)
        return found


def _end(key: bytes) -> int:
    """End of the window of an entry."""
    return int(msgspec.json.decode(key)[-1])
