"""A join of two streams on a key, of rows whose event times are near each other.

A row meets the rows of the other side that are kept, and is kept itself until event time has passed every moment at
which a partner could still come in time. So which pairs come out does not depend on the order in which rows arrive, nor
on where a batch ends. Known as interval join.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from towpath.operators.growing_rows import KeptLists, grown
from towpath.operators.keyed_rows import GROUP, grouped, of_groups
from towpath.operators.keys import key_bytes
from towpath.operators.pairs import RIGHT, TIME, How, Pairs
from towpath.operators.timers import TaskTimers
from towpath.query.plan import PARTITION, WATERMARK, OperatorContext

_LEFT_TIME = "__left_time"


class IntervalPairs(Pairs):
    """Pairs of rows near each other in event time, which is kept, too.

    Args:
        left: columns of the left side that come out.
        right: column that comes out → column of the right side.
        lower_ms: least event time of the right row minus that of the left one.
        upper_ms: greatest.
    """

    told = (RIGHT, TIME)

    def __init__(self, left: Sequence[str], right: Mapping[str, str], lower_ms: int, upper_ms: int) -> None:
        super().__init__(left, right)
        self.lower_ms = lower_ms
        self.upper_ms = upper_ms

    def expiry(self, *, right: bool, time_ms: int) -> int:
        """The watermark from which on no partner of a row comes in time."""
        return time_ms - self.lower_ms if right else time_ms + self.upper_ms

    def _pairs(self, left: pl.DataFrame, right: pl.DataFrame, how: How = "inner") -> pl.DataFrame:
        ours = left.select(GROUP, pl.col(TIME).alias(_LEFT_TIME), *self.left)
        theirs = right.select(GROUP, TIME, **{name: pl.col(column) for name, column in self.right.items()})
        distance = pl.col(TIME) - pl.col(_LEFT_TIME)
        near = distance.is_between(self.lower_ms, self.upper_ms)
        found = ours.join(theirs, on=GROUP, how=how, maintain_order="left_right").filter(near)
        return found.select(GROUP, *self.left, *self.right)


class IntervalJoin:
    """Runs :class:`IntervalPairs` over batches, and forgets rows when their time has passed.

    Output columns: the key, those of both sides, and the reserved ones. A row whose event time the watermark had
    reached when it came is late: it is left out and counted, since its partners may be forgotten.
    """

    def __init__(self, keys: Sequence[str], pairs: IntervalPairs, table: str) -> None:
        """Fix the sides.

        Args:
            keys: of both sides.
            pairs: what is kept and goes out.
            table: name of the state table, of lists of rows; the note of a list is when the first may be forgotten.
        """
        self._keys = list(keys)
        self._pairs = pairs
        self.state_table = table
        self.timers = TaskTimers(table, lambda _, rows: rows.note)

    def state_keys(self, frame: pl.DataFrame) -> list[bytes]:
        """See :class:`towpath.operators.keyed.Keyed`."""
        return key_bytes(frame, self._keys)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Take rows in; pairs that they complete come out."""
        if WATERMARK in frame.columns:
            in_time = frame.filter(pl.col(TIME) > pl.col(WATERMARK)).drop(WATERMARK)
            if in_time.height < frame.height:
                context.late(frame.height - in_time.height)
            frame = in_time
        groups, frame = grouped(frame, self._keys)
        keys = key_bytes(groups, self._keys)
        lists = KeptLists(groups, keys, context, self.state_table)
        growth = grown(lists, frame, self._pairs)
        due = [
            first if known is None else min(first, known)
            for first, known in zip(self._first_expiry(frame), lists.notes, strict=True)
        ]
        lists.write(growth, due)
        for partition, key, time_ms in zip(groups.get_column(PARTITION).to_list(), keys, due, strict=True):
            self.timers.of(partition, context).add(key, time_ms)
        return of_groups(growth.found, groups, self._keys)

    def waits_for(self, rows: pl.DataFrame) -> pl.Series:
        """See :class:`towpath.operators.timed.Timed`: each row's event time, which that of its pairs is at least."""
        return rows.get_column(TIME)

    def close(self, partition: int, watermark_ms: int, context: OperatorContext, most: int) -> pl.DataFrame:
        """Forget rows whose partners can't come any more; nothing goes out."""
        timers = self.timers.of(partition, context)
        keys = timers.take(watermark_ms, most)
        lists = context.tasks[partition].lists(self.state_table)

        def noted(key: bytes, left: list[list[Any]]) -> int | None:
            if not left:
                return None
            due_ms = min(map(self._expiry, left))
            timers.add(key, due_ms)
            return due_ms

        lists.retain_many(keys, lambda row: self._expiry(row) > watermark_ms, noted)
        return pl.DataFrame()

    def _first_expiry(self, frame: pl.DataFrame) -> list[int]:
        """By group: when the first of its rows in a batch may be forgotten."""
        lower, upper = self._pairs.lower_ms, self._pairs.upper_ms
        expiry = pl.col(TIME) + pl.when(RIGHT).then(-lower).otherwise(upper)
        found: list[int] = frame.group_by(GROUP).agg(expiry.min()).sort(GROUP).get_column(TIME).to_list()
        return found

    def _expiry(self, row: list[Any]) -> int:
        return self._pairs.expiry(right=row[0], time_ms=row[1])
