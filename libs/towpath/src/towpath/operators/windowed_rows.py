"""Keyed operators over windows of event time: rows are kept per key and window, and go out when the window closes.

An entry of state belongs to one key and one window, under the key's text with the window's end as its last part. So the
timers are in the state: which windows are open is read from it when a task comes, and moves with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import polars as pl

from towpath.operators.keyed_rows import GROUP, Reduction, grouped, of_groups, reduced, rows_of
from towpath.operators.keys import key_bytes, key_frame
from towpath.operators.late import COUNTED, LateRows
from towpath.operators.timers import TaskTimers
from towpath.operators.windows import WINDOW_END, WINDOW_START, Until, Window
from towpath.query.plan import PARTITION, WATERMARK, OperatorContext


class WindowedRows:
    """Runs a :class:`~towpath.operators.keyed_rows.Reduction` per key and window.

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
        reduction: Reduction,
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
            table: name of the state table.
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
        found = reduced(frame, groups, keys, self._reduction, context, self.state_table)
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
        table = context.tasks[partition].table(self.state_table)
        values = [] if self._updates else table.get_many(keys)
        table.put_many(keys, [None] * len(keys))
        return pl.DataFrame() if self._updates else self._rows(keys, values, partition)

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
        rows = rows_of(values, self._kept, self.state_table)
        _, found = self._reduction.step(rows.clear(), rows)
        owners = key_frame(keys, self._schema).with_row_index(GROUP)
        found = found.sort(GROUP, maintain_order=True)  # in the order in which windows end
        joined = found.join(owners, on=GROUP, how="left", maintain_order="left")
        return joined.select(
            *self._keys[:-1],
            *self._bounds,
            pl.exclude(GROUP, *self._keys),
            pl.lit(partition, pl.Int32).alias(PARTITION),
        )


def _end(key: bytes) -> int:
    """End of the window of an entry."""
    return int(msgspec.json.decode(key)[-1])
