"""Keyed operators over windows of event time: rows are kept per key and window, and go out when the window closes.

An entry of state belongs to one key and one window, under the key's text with the window's start as its last part. So
the timers are in the state: which windows are open is read from it when a task comes, and moves with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import polars as pl

from statemgr.state import TaskState
from towpath.operators.keyed_rows import GROUP, Reduction, grouped, reduced, rows_of
from towpath.operators.keys import key_bytes
from towpath.operators.windows import WINDOW_END, WINDOW_START, Window
from towpath.query.plan import PARTITION, OperatorContext


class WindowedRows:
    """Runs a :class:`~towpath.operators.keyed_rows.Reduction` per key and window.

    Output columns: the key, ``window_start``, ``window_end``, and what the reduction gives for all rows of the window.
    They have no emit time: what made them possible is the watermark.
    """

    def __init__(
        self,
        keys: Mapping[str, Any],
        window: Window,
        reduction: Reduction,
        kept: Mapping[str, Any],
        table: str,
    ) -> None:
        """Fix the window.

        Args:
            keys: key column → Polars type.
            window: of event time; rows come with ``window_start``.
            reduction: what is kept of a window's rows.
            kept: columns of the rows that are kept → Polars type.
            table: name of the state table.
        """
        self._schema = {**keys, WINDOW_START: pl.Int64()}
        self._keys = list(self._schema)
        self._window = window
        self._reduction = reduction
        self._kept = dict(kept)
        self.state_table = table
        self._open: dict[int, _OpenWindows] = {}

    def state_keys(self, frame: pl.DataFrame) -> list[bytes]:
        """See :class:`towpath.operators.keyed.Keyed`."""
        return key_bytes(frame, self._keys)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Take rows in; nothing comes out before a window closes."""
        groups, frame = grouped(frame, self._keys)
        keys = key_bytes(groups, self._keys)
        reduced(frame, groups, keys, self._reduction, context, self.state_table)
        starts = groups.get_column(WINDOW_START).to_list()
        for partition, start, key in zip(groups.get_column(PARTITION).to_list(), starts, keys, strict=True):
            self._of(partition, context).add(start, key)
        return self._rows([], [], 0)

    def due(self, partition: int, context: OperatorContext) -> int | None:
        """End of the earliest open window; see :class:`towpath.operators.timed.Timed`."""
        earliest = self._of(partition, context).earliest
        return None if earliest is None else earliest + self._window.size_ms

    def close(self, partition: int, watermark_ms: int, context: OperatorContext, most: int) -> pl.DataFrame:
        """Rows of windows that end at the watermark or before, whose state is deleted."""
        keys = self._of(partition, context).take(watermark_ms - self._window.size_ms, most)
        table = context.tasks[partition].table(self.state_table)
        values = table.get_many(keys)
        table.put_many(keys, [None] * len(keys))
        return self._rows(keys, values, partition)

    def _rows(self, keys: Sequence[bytes], values: Sequence[Any], partition: int) -> pl.DataFrame:
        rows = rows_of(values, self._kept, self.state_table)
        _, found = self._reduction.step(rows.clear(), rows)
        parts = pl.DataFrame([msgspec.json.decode(key) for key in keys], schema=self._schema, orient="row")
        joined = found.join(parts.with_row_index(GROUP), on=GROUP, how="left", maintain_order="left")
        return joined.select(
            *self._keys,
            (pl.col(WINDOW_START) + self._window.size_ms).alias(WINDOW_END),
            pl.exclude(GROUP, *self._keys),
            pl.lit(partition, pl.Int32).alias(PARTITION),
        )

    def _of(self, partition: int, context: OperatorContext) -> _OpenWindows:
        """Open windows of a task, read from its state where they are not known yet."""
        state = context.tasks[partition]
        known = self._open.get(partition)
        if known is None or not known.are_of(state):
            known = self._open[partition] = _OpenWindows(state, self.state_table)
        return known


class _OpenWindows:
    """The entries of a task's windows, by start."""

    def __init__(self, state: TaskState, table: str) -> None:
        self._state = state
        self._complete = state.complete
        self._keys: dict[int, dict[bytes, None]] = {}
        if not self._complete:
            return  # they are read when all have come, and nothing is closed before
        with state.table(table).items() as entries:
            for key, _ in entries:
                self.add(msgspec.json.decode(key)[-1], key)

    def are_of(self, state: TaskState) -> bool:
        """Whether they are those of this state, and none of it came only after they were read."""
        return self._state is state and self._complete == state.complete

    @property
    def earliest(self) -> int | None:
        """Start of the earliest window."""
        return min(self._keys, default=None)

    def add(self, start: int, key: bytes) -> None:
        """Note an entry."""
        self._keys.setdefault(start, {})[key] = None

    def take(self, last_start: int, most: int) -> list[bytes]:
        """Keys of windows that start at ``last_start`` or before, earliest first; about ``most`` of them."""
        taken: list[bytes] = []
        for start in sorted(each for each in self._keys if each <= last_start):
            keys = self._keys[start]
            while keys and len(taken) < most:
                taken.append(keys.popitem()[0])
            if keys:
                break
            del self._keys[start]
        return taken
