"""How many rows each key has had so far: the batch is grouped first, state is touched once per distinct key."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from towpath.operators.blocks import blocks
from towpath.operators.combine import Combine
from towpath.operators.keys import key_bytes
from towpath.operators.weights import emit_times, events, newest, weight
from towpath.query.plan import EVENTS, PARTITION, SCHED, SCHED_NEWEST, OperatorContext

_BASE = "__base"
_ADDED = "__added"


class KeyedCount:
    """Counts rows per key.

    Output columns: the key, the count (Int64), and the reserved columns (oldest and newest intended emit time if the
    input has one, number of source events). ``each`` gives one row per input row with the running count, in input
    order; otherwise one row per distinct key of the batch, so that how many depends on batching and the last one does
    not.
    """

    def __init__(self, keys: Sequence[str], into: str, table: str, *, each: bool = False) -> None:
        """``table``: name of the state table, Int64 values under the key's text."""
        self._keys = list(keys)
        self._into = into
        self.state_table = table
        self._each = each
        self.merger = None if each else Combine([PARTITION, *keys])

    def state_keys(self, frame: pl.DataFrame) -> list[bytes]:
        """See :class:`towpath.operators.keyed.Keyed`."""
        return key_bytes(frame, self._keys)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Rows of any number of tasks → counts."""
        groups = self._grouped(frame)
        bases = self._advance(groups, context)
        if self._each:
            rows = self._running(frame, groups.with_columns(bases))
            bases = rows.get_column(_BASE)
        else:
            rows = groups
        # Column by column: a query over the rows would cost a batch of few rows more than anything else does.
        count = (bases + rows.get_column(_ADDED)).alias(self._into)
        reserved = [name for name in (PARTITION, SCHED, SCHED_NEWEST, EVENTS) if name in rows.columns]
        return pl.DataFrame([*map(rows.get_column, self._keys), count, *map(rows.get_column, reserved)])

    def _grouped(self, frame: pl.DataFrame) -> pl.DataFrame:
        """One row per distinct key of each task, tasks in blocks."""
        totals = [weight(frame).alias(_ADDED), events(frame).alias(EVENTS), *emit_times(frame)]
        groups = frame.group_by([PARTITION, *self._keys], maintain_order=True).agg(totals)
        return groups if groups.get_column(PARTITION).is_sorted() else groups.sort(PARTITION, maintain_order=True)

    def _advance(self, groups: pl.DataFrame, context: OperatorContext) -> pl.Series:
        """Add each group's rows to its state; gives the counts before."""
        keys = key_bytes(groups, self._keys)
        added = groups.get_column(_ADDED).to_list()
        bases: list[int] = []
        for partition, size in blocks(groups):
            block = slice(len(bases), len(bases) + size)
            table = context.tasks[partition].table(self.state_table)
            before = [value or 0 for value in table.get_many(keys[block])]
            table.put_many(keys[block], [base + more for base, more in zip(before, added[block], strict=True)])
            bases += before
        return pl.Series(_BASE, bases, dtype=pl.Int64)

    def _running(self, frame: pl.DataFrame, groups: pl.DataFrame) -> pl.DataFrame:
        group = [PARTITION, *self._keys]
        nth = pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over(group).alias(_ADDED)
        each = pl.col(EVENTS) if EVENTS in frame.columns else pl.repeat(1, pl.len(), dtype=pl.Int64)
        own = [nth, each.alias(EVENTS)]
        if SCHED in frame.columns:
            own.append(newest(frame).alias(SCHED_NEWEST))
        rows = frame.with_columns(own)
        return rows.join(groups.select(*group, _BASE), on=group, how="left", maintain_order="left")
