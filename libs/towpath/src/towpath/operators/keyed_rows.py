"""Keyed operators that keep a few rows per key, all in columns: a batch touches state once for each of its keys.

::

    batch ──rows──▶ new rows ─┐        ┌──▶ rows to keep ──▶ state
                              ├──step──┤
    state ─────▶ kept rows ───┘        └──▶ rows that go out

What is kept, and what goes out, is decided by a :class:`Reduction`, which is pure; this module does the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, repeat
from typing import Any, Protocol

import polars as pl

from statemgr.errors import CodecError
from towpath.operators.blocks import blocks
from towpath.operators.keys import key_bytes
from towpath.operators.weights import emit_times, events
from towpath.query.plan import EVENTS, PARTITION, SCHED, SCHED_NEWEST, OperatorContext

GROUP = "__group"
"""Column with the number of a row's key in the batch (UInt32)."""


class Keeping(Protocol):
    """What is kept of the rows of a key.

    Frames have the column ``__group``, which tells keys apart and lies in any order; rows of a key are in their order.
    """

    def rows(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Rows of a batch, in the form in which rows are kept."""
        ...


class Reduction(Keeping, Protocol):
    """What is kept, and what goes out."""

    def step(self, before: pl.DataFrame, new: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Rows that are kept and new ones → rows to keep, and rows that go out."""
        ...


class KeyedRows:
    """Runs a :class:`Reduction` over batches.

    Output columns: the key, what the reduction gives, and the reserved columns (oldest and newest intended emit time of
    the key's rows in the batch if they have one, number of source events).
    """

    def __init__(self, keys: Sequence[str], reduction: Reduction, table: str) -> None:
        """``table``: name of the state table, whose values are lists of rows, each a list of its columns' values."""
        self._keys = list(keys)
        self._reduction = reduction
        self.state_table = table

    def state_keys(self, frame: pl.DataFrame) -> list[bytes]:
        """See :class:`towpath.operators.keyed.Keyed`."""
        return key_bytes(frame, self._keys)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Rows of any number of tasks → what the reduction gives."""
        groups, frame = grouped(frame, self._keys)
        found = reduced(frame, groups, key_bytes(groups, self._keys), self._reduction, context, self.state_table)
        return of_groups(found, groups, self._keys)


def kept_schema(frame: pl.DataFrame, keys: Sequence[str], keeping: Keeping) -> Mapping[str, Any]:
    """Columns of the rows that are kept, for input like this; without ``__group``."""
    schema = dict(keeping.rows(grouped(frame.clear(), keys)[1]).schema)
    del schema[GROUP]
    return schema


def of_groups(found: pl.DataFrame, groups: pl.DataFrame, keys: Sequence[str | pl.Expr]) -> pl.DataFrame:
    """Rows of a batch's groups with the keys of these, or what is made of them, and the reserved columns."""
    reserved = [name for name in (PARTITION, SCHED, SCHED_NEWEST, EVENTS) if name in groups.columns]
    columns = [name for name in found.columns if name != GROUP]
    joined = found.join(groups, on=GROUP, how="left", maintain_order="left")
    return joined.select(*keys, *columns, *reserved)


def grouped(frame: pl.DataFrame, keys: Sequence[str]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """One row per key of each task, tasks in blocks, and the batch; both with ``__group``."""
    by = [PARTITION, *keys]
    totals = [events(frame).alias(EVENTS), *emit_times(frame)]
    groups = frame.group_by(by, maintain_order=True).agg(totals).sort(PARTITION, maintain_order=True)
    groups = groups.with_row_index(GROUP)
    return groups, frame.join(groups.select(GROUP, *by), on=by, how="left", maintain_order="left")


def reduced(
    frame: pl.DataFrame,
    groups: pl.DataFrame,
    keys: list[bytes],
    reduction: Reduction,
    context: OperatorContext,
    table: str,
) -> pl.DataFrame:
    """Take a batch into state; gives what the reduction puts out.

    Args:
        frame: the batch, with ``__group``.
        groups: its keys, sorted by ``__partition``.
        keys: what each of them is called in state.
        reduction: what is kept.
        context: of the operator.
        table: name of the state table.
    """
    new = reduction.rows(frame)
    tables = KeptTables(groups, keys, context, table)
    before = tables.read(new.schema)
    after, found = reduction.step(before, new)
    tables.write(after)
    return found


def rows_of(values: Sequence[list[list[Any]] | None], schema: Mapping[str, Any], table: str) -> pl.DataFrame:
    """Kept rows as a frame: ``__group`` is the place of their key's value.

    Raises:
        CodecError: they have other columns than ``schema``.
    """
    rows = [value or () for value in values]
    columns = {name: dtype for name, dtype in schema.items() if name != GROUP}
    flat = list(chain.from_iterable(rows))
    if any(len(row) != len(columns) for row in flat):
        raise CodecError(
            f"table {table!r} holds rows of other columns than {', '.join(columns)}: the query has changed; "
            "give it, or the stage, another name to begin anew"
        )
    groups = chain.from_iterable(repeat(group, len(kept)) for group, kept in enumerate(rows))
    frame = pl.DataFrame(flat, schema=columns, orient="row")
    return frame.select(pl.Series(GROUP, list(groups), dtype=pl.UInt32), pl.all())


class KeptTables:
    """The tables of a batch's tasks, by the groups of the batch."""

    def __init__(self, groups: pl.DataFrame, keys: list[bytes], context: OperatorContext, name: str) -> None:
        self._name = name
        self._keys = keys
        self._tables = [(context.tasks[partition].table(name), size) for partition, size in blocks(groups)]
        self._values: list[list[list[Any]] | None] = []

    def read(self, schema: pl.Schema) -> pl.DataFrame:
        """Rows that are kept, in frames of this schema."""
        begin = 0
        for table, size in self._tables:
            self._values += table.get_many(self._keys[begin : begin + size])
            begin += size
        return rows_of(self._values, schema, self._name).select(schema.names())

    def write(self, after: pl.DataFrame) -> None:
        """Keep these rows; keys whose rows are as before are not written, and those without rows are deleted."""
        values: list[list[list[Any]]] = [[] for _ in self._keys]
        for group, *row in after.select(GROUP, pl.exclude(GROUP)).iter_rows():
            values[group].append(row)
        begin = 0
        for table, size in self._tables:
            changed = [at for at in range(begin, begin + size) if values[at] != (self._values[at] or [])]
            table.put_many([self._keys[at] for at in changed], [values[at] or None for at in changed])
            begin += size
