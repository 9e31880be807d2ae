"""State that goes away: entries of keys of which no row has come for long, in event time.

::

    row ──▶ watermark at which it came ≥ newest row of its key so far + ttl? ── yes ─▶ its key begins anew
    timer ▶ watermark of the task      ≥ newest row of its key so far + ttl? ── yes ─▶ the entry is deleted

What a row meets is decided by the first line alone, and so by the order of the input, wherever batches end and whenever
a timer goes off; timers only make room. Known as state TTL, as in Flink, there in processing time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from towpath.operators.keyed_rows import GROUP
from towpath.operators.keys import key_bytes
from towpath.operators.timed import came_at
from towpath.operators.timers import TaskTimers
from towpath.query.plan import WATERMARK, OperatorContext

GRAINS = 16
"""Timers go off at multiples of a sixteenth of the time to live, so that few moments hold many entries: an entry stays
for up to that much longer, and no row meets it any more."""


@dataclass(frozen=True)
class Expiry:
    """When a key's state goes away.

    Attributes:
        ttl_ms: event time that goes by after the key's newest row.
        on: column of the rows' event time in ms (Int64), without nulls.
    """

    ttl_ms: int
    on: str

    def due(self, touched_ms: int) -> int:
        """When the timer of an entry goes off whose key's newest row is of ``touched_ms``."""
        grain = max(1, self.ttl_ms // GRAINS)
        return -(-(touched_ms + self.ttl_ms) // grain) * grain

    def gone(self, touched_ms: int, watermark_ms: int) -> bool:
        """Whether such an entry is gone at a watermark."""
        return touched_ms + self.ttl_ms <= watermark_ms

    def anew(self, rows: pl.DataFrame, touched: pl.Series) -> pl.Series | None:
        """Which rows begin their key anew, since its state is gone when they come; None: no row does.

        Args:
            rows: a batch, with ``__group``.
            touched: by group: event time of the key's newest row before the batch; null: it has no state.
        """
        if WATERMARK not in rows.columns or not rows.height:
            return None
        earliest = min(time for time in (rows.get_column(self.on).min(), touched.min()) if isinstance(time, int))
        newest = rows.get_column(WATERMARK).max()
        if not isinstance(newest, int) or not self.gone(earliest, newest):
            return None
        before = pl.lit(touched.gather(rows.get_column(GROUP)))
        reached = pl.max_horizontal(before, pl.col(self.on).cum_max().shift(1).over(GROUP))
        found = rows.select((reached + self.ttl_ms <= pl.col(WATERMARK)).fill_null(value=False)).to_series()
        return found if found.any() else None

    def touch(self, rows: pl.DataFrame, touched: pl.Series) -> pl.Series:
        """By group: event time of the key's newest row, the batch included."""
        newest = rows.group_by(GROUP).agg(pl.col(self.on).max()).sort(GROUP).get_column(self.on)
        return pl.select(pl.max_horizontal(touched, newest)).to_series()


class ExpiryTimers:
    """Deletes entries of one table when they are gone.

    A timer is not moved when its key is touched: when it goes off, the entry is looked at, and gets a later one.

    Attributes:
        timers: of the tasks.
    """

    def __init__(self, table: str, expiry: Expiry, touched: Callable[[Any], int]) -> None:
        """``touched``: an entry's value → event time of its key's newest row."""
        self._table = table
        self._expiry = expiry
        self._touched = touched
        self.timers = TaskTimers(table, lambda _, value: expiry.due(touched(value)))

    def touch(self, owners: Iterable[tuple[int, bytes, int]], context: OperatorContext) -> None:
        """Rows came; ``owners``: partition, key of the entry, and event time of the key's newest row."""
        for partition, key, touched_ms in owners:
            self.timers.of(partition, context).add(key, self._expiry.due(touched_ms))

    def expire(self, partition: int, watermark_ms: int, context: OperatorContext, most: int) -> None:
        """Look at ``most`` entries whose timers the watermark has reached, and delete those that are gone."""
        timers = self.timers.of(partition, context)
        keys = timers.take(watermark_ms, most)
        state = context.tasks[partition]
        gone: list[bytes] = []
        for key, value in zip(keys, state.table(self._table).get_many(keys), strict=True):
            if value is None:
                continue
            due = self._expiry.due(self._touched(value))
            if due <= watermark_ms:
                gone.append(key)
            else:
                timers.add(key, due)
        state.delete_many(self._table, gone)


class Expiring:
    """What operators share whose state goes away when its key has rested.

    Args:
        keys: key columns.
        table: name of the state table.
        expiry: when an entry goes away.
        touched: an entry's value → event time of its key's newest row.
    """

    def __init__(self, keys: Sequence[str], table: str, expiry: Expiry, touched: Callable[[Any], int]) -> None:
        self._keys = list(keys)
        self._expiry = expiry
        self._expiring = ExpiryTimers(table, expiry, touched)
        self.timers = self._expiring.timers
        self.state_table = table

    def state_keys(self, frame: pl.DataFrame) -> list[bytes]:
        """See :class:`towpath.operators.keyed.Keyed`."""
        return key_bytes(frame, self._keys)

    def waits_for(self, rows: pl.DataFrame) -> pl.Series:
        """See :class:`towpath.operators.timed.Timed`."""
        return came_at(rows)

    def close(self, partition: int, watermark_ms: int, context: OperatorContext, most: int) -> pl.DataFrame:
        """Delete what is gone; nothing comes out."""
        self._expiring.expire(partition, watermark_ms, context, most)
        return pl.DataFrame()
