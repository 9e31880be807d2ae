"""A join of two streams on a key, of rows whose event times are near each other.

Both sides come in one stream; a column tells them apart. A row meets the rows of the other side that are kept, and is
kept itself until event time has passed every moment at which a partner could still come in time. So which pairs come
out does not depend on the order in which rows arrive, nor on where a batch ends. Known as interval join.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from towpath.operators.keyed_rows import GROUP, KeyedRows
from towpath.operators.keys import key_bytes
from towpath.operators.timers import TaskTimers
from towpath.query.plan import PARTITION, WATERMARK, OperatorContext

RIGHT = "join.right"
"""Column that says whether a row is of the right side (Boolean)."""

TIME = "join.time"
"""Column with a row's event time, in ms (Int64)."""

_LEFT_TIME = "__left_time"


class IntervalPairs:
    """Keeps rows of both sides, and finds pairs; see :class:`towpath.operators.keyed_rows.Reduction`.

    Args:
        left: columns of the left side that come out.
        right: column that comes out → column of the right side.
        lower_ms: least event time of the right row minus that of the left one.
        upper_ms: greatest.
    """

    def __init__(self, left: Sequence[str], right: Mapping[str, str], lower_ms: int, upper_ms: int) -> None:
        self._left = list(left)
        self._right = dict(right)
        self.lower_ms = lower_ms
        self.upper_ms = upper_ms

    def rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Side and event time of rows, and the columns of both sides; a row has nulls in those of the other."""
        return frame.select(GROUP, RIGHT, TIME, *self._left, *dict.fromkeys(self._right.values()))

    def step(self, before: pl.DataFrame, new: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """All rows are kept; pairs with a new row in them go out."""
        right = before.filter(RIGHT), new.filter(RIGHT)
        left = before.filter(~pl.col(RIGHT)), new.filter(~pl.col(RIGHT))
        pairs = [self._pairs(left[0], right[1]), self._pairs(left[1], pl.concat(right))]
        return pl.concat([before, new]), pl.concat(pairs)

    def expiry(self, *, right: bool, time_ms: int) -> int:
        """The watermark from which on no partner of a row comes in time."""
        return time_ms - self.lower_ms if right else time_ms + self.upper_ms

    def _pairs(self, left: pl.DataFrame, right: pl.DataFrame) -> pl.DataFrame:
        ours = left.select(GROUP, pl.col(TIME).alias(_LEFT_TIME), *self._left)
        theirs = right.select(GROUP, TIME, **{name: pl.col(column) for name, column in self._right.items()})
        distance = pl.col(TIME) - pl.col(_LEFT_TIME)
        near = distance.is_between(self.lower_ms, self.upper_ms)
        found = ours.join(theirs, on=GROUP, how="inner", maintain_order="left_right").filter(near)
        return found.select(GROUP, *self._left, *self._right)


class IntervalJoin:
    """Runs :class:`IntervalPairs` over batches, and forgets rows when their time has passed.

    Output columns: the key, those of both sides, and the reserved ones. A row whose event time the watermark had
    reached when it came is late: it is left out and counted, since its partners may be forgotten.
    """

    def __init__(self, keys: Sequence[str], pairs: IntervalPairs, columns: Mapping[str, Any], table: str) -> None:
        """Fix the sides.

        Args:
            keys: of both sides.
            pairs: what is kept and goes out.
            columns: that come out → Polars type, reserved ones left out.
            table: name of the state table.
        """
        self._rows = KeyedRows(keys, pairs, table)
        self._keys = list(keys)
        self._pairs = pairs
        self._nothing = pl.Schema({**columns, PARTITION: pl.Int32()}).to_frame()
        self.state_table = table
        self.timers = TaskTimers(table, lambda _, rows: min(map(self._expiry, rows)))

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
        found = self._rows.process(frame, context)
        lower, upper = self._pairs.lower_ms, self._pairs.upper_ms
        expiry = pl.col(TIME) + pl.when(RIGHT).then(-lower).otherwise(upper)
        first = frame.group_by(PARTITION, *self._keys, maintain_order=True).agg(expiry.min())
        due = zip(first.get_column(PARTITION), key_bytes(first, self._keys), first.get_column(TIME), strict=True)
        for partition, key, time_ms in due:
            self.timers.of(partition, context).add(key, time_ms)
        return found

    def waits_for(self, rows: pl.DataFrame) -> pl.Series:
        """See :class:`towpath.operators.timed.Timed`: each row's event time, which that of its pairs is at least."""
        return rows.get_column(TIME)

    def close(self, partition: int, watermark_ms: int, context: OperatorContext, most: int) -> pl.DataFrame:
        """Forget rows whose partners can't come any more; nothing goes out."""
        timers = self.timers.of(partition, context)
        keys = timers.take(watermark_ms, most)
        table = context.tasks[partition].table(self.state_table)
        after: list[list[list[Any]] | None] = []
        for key, rows in zip(keys, table.get_many(keys), strict=True):
            left = [row for row in rows or () if self._expiry(row) > watermark_ms]
            if left:
                timers.add(key, min(map(self._expiry, left)))
            after.append(left or None)
        table.put_many(keys, after)
        return self._nothing

    def _expiry(self, row: list[Any]) -> int:
        of_right, time_ms, *_ = row
        return self._pairs.expiry(right=of_right, time_ms=time_ms)
