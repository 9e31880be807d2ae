"""The first row of each key: what a key has had before is left out. Also known as deduplication."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from towpath.operators.blocks import blocks
from towpath.operators.expiry import Expiry, ExpiryTimers
from towpath.operators.keyed_rows import GROUP, grouped
from towpath.operators.keys import key_bytes
from towpath.operators.timed import came_at
from towpath.query.plan import PARTITION, OperatorContext

SEEN = 0
"""Value of a key that was seen and never goes away."""


class Distinct:
    """Lets a row pass whose key was not seen before; an entry of state says that it was."""

    def __init__(self, keys: Sequence[str], table: str) -> None:
        """``keys``: columns, the stream's key among them; ``table``: of integers under the text of all of these."""
        self._keys = list(keys)
        self.state_table = table

    def state_keys(self, frame: pl.DataFrame) -> list[bytes]:
        """See :class:`towpath.operators.keyed.Keyed`."""
        return key_bytes(frame, self._keys)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Rows of any number of tasks → those that are new, as they are."""
        groups, rows = grouped(frame, self._keys)
        entries = _Entries(groups, key_bytes(groups, self._keys), self.state_table, context)
        seen = entries.read()
        entries.write(seen.fill_null(SEEN))
        return frame.filter(_first_of(rows, seen.is_null()))


class ExpiringDistinct(Distinct):
    """The same for keys that are forgotten when none of their rows has come for long.

    The value of a key is the event time of its newest row, whether that passed or not.
    """

    def __init__(self, keys: Sequence[str], table: str, expiry: Expiry) -> None:
        """See :class:`Distinct`; ``expiry``: when a key is forgotten."""
        super().__init__(keys, table)
        self._expiry = expiry
        self._expiring = ExpiryTimers(table, expiry, int)
        self.timers = self._expiring.timers

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Rows of any number of tasks → those that are new, as they are."""
        groups, rows = grouped(frame, self._keys)
        keys = key_bytes(groups, self._keys)
        entries = _Entries(groups, keys, self.state_table, context)
        before = entries.read()
        passes = _first_of(rows, before.is_null())
        anew = self._expiry.anew(rows, before)
        touched = self._expiry.touch(rows, before)
        entries.write(touched)
        times = zip(groups.get_column(PARTITION).to_list(), keys, touched.to_list(), strict=True)
        self._expiring.touch(times, context)
        return frame.filter(passes if anew is None else passes | anew)

    def waits_for(self, rows: pl.DataFrame) -> pl.Series:
        """See :class:`towpath.operators.timed.Timed`."""
        return came_at(rows)

    def close(self, partition: int, watermark_ms: int, context: OperatorContext, most: int) -> pl.DataFrame:
        """Forget keys; nothing comes out."""
        self._expiring.expire(partition, watermark_ms, context, most)
        return pl.DataFrame()


class _Entries:
    """The entries of a batch's keys, by the groups of the batch."""

    def __init__(self, groups: pl.DataFrame, keys: list[bytes], table: str, context: OperatorContext) -> None:
        self._keys = keys
        self._tables = [(context.tasks[partition].table(table), size) for partition, size in blocks(groups)]
        self._values: list[int | None] = []

    def read(self) -> pl.Series:
        """The value of each key; null where it has none."""
        for table, size in self._tables:
            begin = len(self._values)
            self._values += table.get_many(self._keys[begin : begin + size])
        return pl.Series("seen", self._values, dtype=pl.Int64)

    def write(self, after: pl.Series) -> None:
        """Set the value of each key, if it is another than before."""
        values = after.to_list()
        begin = 0
        for table, size in self._tables:
            changed = [at for at in range(begin, begin + size) if values[at] != self._values[at]]
            table.put_many([self._keys[at] for at in changed], [values[at] for at in changed])
            begin += size


def _first_of(rows: pl.DataFrame, groups: pl.Series) -> pl.Series:
    """Whether a row is the first of its group in the batch, for the groups that are chosen."""
    group = rows.get_column(GROUP)
    return group.is_first_distinct() & groups.gather(group)
