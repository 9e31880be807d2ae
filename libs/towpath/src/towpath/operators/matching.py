"""Operators that find patterns in the rows of a key: which steps a row fits, whether it is late, and the search itself.

::

    batch ──Fit──▶ a bit for each step ──hash edge──▶ InTime ──▶ PatternMatch: rows wait in their key's list in state
                                                                      │ the watermark has passed them
                                                                      └──▶ automaton ──▶ runs that go on, matches

Conditions are judged in columns, for whole batches; only rows that may make a difference cross the edge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from statemgr.errors import CodecError
from towpath.operators.blocks import blocks
from towpath.operators.keyed_rows import GROUP, grouped
from towpath.operators.keys import key_bytes, key_frame
from towpath.operators.pattern import TIME, Automaton, Begun, Kept, Match
from towpath.operators.timers import TaskTimers
from towpath.query.plan import PARTITION, RESERVED_PREFIX, WATERMARK, OperatorContext

STEPS_FIT = "pattern.fits"
"""Column with a bit for each step of the pattern that a row fits (Int64)."""

MATCH_START = "match_start"
MATCH_END = "match_end"
"""Columns of a match: event time of its first row, and when it was certain, in ms since the epoch (Int64)."""

MOST_STEPS = 62
"""Bits of an Int64 without its sign, and one to spare."""


class Fit:
    """Adds which steps of a pattern a row fits; null counts as false."""

    def __init__(self, conditions: Sequence[Sequence[pl.Expr]], *, all_rows: bool) -> None:
        """Fix the steps.

        Args:
            conditions: of each step; all of them must be true. A step without any is fit by every row.
            all_rows: rows that fit no step make a difference, too.
        """
        self._conditions = [list(each) for each in conditions]
        self._all_rows = all_rows

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:  # noqa: ARG002
        """Rows → those that may make a difference, with the column."""
        bits = [_bit(number, each) for number, each in enumerate(self._conditions)]
        visible = frame.select([name for name in frame.columns if not name.startswith(RESERVED_PREFIX)])
        # with_columns repeats a literal for each row, where select alone would give one.
        fits = visible.with_columns(pl.sum_horizontal(bits).cast(pl.Int64).alias(STEPS_FIT)).get_column(STEPS_FIT)
        rows = frame.with_columns(fits)
        return rows if self._all_rows else rows.filter(pl.col(STEPS_FIT) != 0)


def _bit(number: int, conditions: list[pl.Expr]) -> pl.Expr:
    bit, none = pl.lit(1 << number, pl.Int64), pl.lit(0, pl.Int64)
    return pl.when(pl.all_horizontal(conditions)).then(bit).otherwise(none) if conditions else bit


class InTime:
    """Leaves out rows that the watermark had passed when they came, and counts them."""

    def __init__(self, on: str) -> None:
        """``on``: column of the event time, in ms (Int64)."""
        self._on = on

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Rows → rows in time."""
        if WATERMARK not in frame.columns:
            return frame
        rows = frame.filter(pl.col(self._on) >= pl.col(WATERMARK))
        if rows.height < frame.height:
            context.late(frame.height - rows.height)
        return rows.drop(WATERMARK)


class PatternMatch:
    """Keeps rows per key until the watermark has passed them, and runs an automaton over them.

    Output columns: the key, ``match_start``, ``match_end``, and the values of the match. They have no emit time: what
    made them possible is the watermark.
    """

    def __init__(
        self,
        keys: Mapping[str, Any],
        on: str,
        columns: Sequence[str],
        automaton: Automaton,
        values: Mapping[str, Any],
        table: str,
    ) -> None:
        """Fix the pattern.

        Args:
            keys: key column → Polars type.
            on: column of the event time in ms (Int64).
            columns: what is kept of a row besides.
            automaton: finds matches.
            values: column of each of a match's values → Polars type.
            table: name of the state table, of lists of rows; the note of a list is a :class:`Begun`.
        """
        self._schema = dict(keys)
        self._keys = list(keys)
        self._on = on
        self._row = [on, STEPS_FIT, *columns]
        self._automaton = automaton
        self._found = {GROUP: pl.UInt32(), MATCH_START: pl.Int64(), MATCH_END: pl.Int64(), **values}
        self.state_table = table
        self.timers = TaskTimers(table, lambda _, rows: rows.note.due_ms)

    def state_keys(self, frame: pl.DataFrame) -> list[bytes]:
        """See :class:`towpath.operators.keyed.Keyed`."""
        return key_bytes(frame, self._keys)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Take rows in; nothing comes out before event time has come to them."""
        groups, frame = grouped(frame, self._keys)
        keys = key_bytes(groups, self._keys)
        rows: list[list[list[Any]]] = [[] for _ in keys]
        for group, *row in frame.select(GROUP, *self._row).iter_rows():
            rows[group].append(row)
        begin = 0
        for partition, size in blocks(groups):
            end = begin + size
            self._keep(partition, keys[begin:end], rows[begin:end], context)
            begin = end
        return self._rows([], [], 0)

    def waits_for(self, rows: pl.DataFrame) -> pl.Series:
        """See :class:`towpath.operators.timed.Timed`: each row's event time, which that of its matches is at least."""
        return rows.get_column(self._on)

    def close(self, partition: int, watermark_ms: int, context: OperatorContext, most: int) -> pl.DataFrame:
        """Matches that are certain at the watermark."""
        timers = self.timers.of(partition, context)
        keys = timers.take(watermark_ms, most)
        lists = context.tasks[partition].lists(self.state_table)
        after: dict[bytes, Begun | None] = {}
        found: list[tuple[int, Match]] = []
        notes = [head.note if head else None for head in lists.heads.get_many(keys)]
        for place, (rows, note) in enumerate(zip(lists.get_many(keys), notes, strict=True)):
            left, matches = self._automaton.judge(self._kept(rows, note), watermark_ms)
            found += [(place, match) for match in matches]
            due_ms = self._automaton.due(left) if left.rows or left.runs else None
            after[keys[place]] = None if due_ms is None else Begun(left.seen, left.runs, due_ms)
            if due_ms is not None:
                timers.add(keys[place], due_ms)
        lists.retain_many(keys, lambda row: int(row[TIME]) >= watermark_ms, lambda key, _: after[key])
        return self._rows(keys, found, partition)

    def _keep(
        self, partition: int, keys: Sequence[bytes], rows: Sequence[list[list[Any]]], context: OperatorContext
    ) -> None:
        timers = self.timers.of(partition, context)
        lists = context.tasks[partition].lists(self.state_table)
        notes: list[Begun] = []
        for key, head, new in zip(keys, lists.heads.get_many(keys), rows, strict=True):
            due_ms = min(row[TIME] for row in new) + 1
            timers.add(key, due_ms)
            rows_before, note = (head.rows, head.note) if head is not None else ([], None)
            before = self._kept(rows_before, note)
            notes.append(Begun(before.seen, before.runs, due_ms if note is None else min(due_ms, note.due_ms)))
        lists.append_many(keys, rows, notes)

    def _kept(self, rows: list[list[Any]], note: Begun | None) -> Kept:
        kept = Kept(0, rows, []) if note is None else Kept(note.seen, rows, note.runs)
        if not self._automaton.knows(kept, len(self._row)):
            raise CodecError(
                f"table {self.state_table!r} holds what another pattern has begun: the query has changed; give the "
                "stage another name to begin anew"
            )
        return kept

    def _rows(self, keys: Sequence[bytes], found: Sequence[tuple[int, Match]], partition: int) -> pl.DataFrame:
        rows = [(place, match.start_ms, match.end_ms, *match.values) for place, match in found]
        frame = pl.DataFrame(rows, schema=self._found, orient="row")
        owners = key_frame(keys, self._schema).with_row_index(GROUP)
        joined = frame.join(owners, on=GROUP, how="left", maintain_order="left")
        return joined.select(*self._keys, pl.exclude(GROUP, *self._keys), pl.lit(partition, pl.Int32).alias(PARTITION))
