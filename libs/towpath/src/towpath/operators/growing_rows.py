"""Keyed operators whose rows pile up under their key: a batch is appended to lists in state, and reads what it needs.

::

    batch ──rows──▶ new rows ──needs──▶ of which keys all kept rows are read; of others only the newest few are
                       │
                       └──grow──▶ rows to append, keys that begin anew with them, rows that go out

What piles up, and what goes out, is decided by a :class:`Growing`, which is pure; this module does the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import polars as pl

from statemgr.lists import NO_LIST, ListHead, ListTable
from towpath.operators.blocks import blocks
from towpath.operators.keyed_rows import GROUP, Keeping, grouped, of_groups, rows_of
from towpath.operators.keys import key_bytes
from towpath.query.plan import OperatorContext

Row = list[Any]
"""A kept row: its columns' values."""


class Growth(NamedTuple):
    """What a batch makes of kept rows; frames and series of groups as of :class:`Growing`.

    Attributes:
        added: rows to append.
        anew: groups whose rows before are dropped first.
        found: rows that go out.
    """

    added: pl.DataFrame
    anew: pl.Series
    found: pl.DataFrame


@runtime_checkable
class Growing(Keeping, Protocol):
    """What is kept, where that is many rows, and what goes out."""

    def needs(self, new: pl.DataFrame) -> pl.Series | None:
        """Groups all of whose kept rows must be there for these new ones; None: those of all groups."""
        ...

    def grow(self, before: pl.DataFrame, new: pl.DataFrame) -> Growth:
        """Kept rows, of groups that need not have all of them the newest, and new ones → what becomes of them."""
        ...


class GrowingRows:
    """Runs a :class:`Growing` over batches; output columns as of :class:`~towpath.operators.keyed_rows.KeyedRows`."""

    def __init__(self, keys: Sequence[str], growing: Growing, table: str) -> None:
        """``table``: name of a state table of lists of :data:`Row`."""
        self._keys = list(keys)
        self._growing = growing
        self.state_table = table

    def state_keys(self, frame: pl.DataFrame) -> list[bytes]:
        """See :class:`towpath.operators.keyed.Keyed`."""
        return key_bytes(frame, self._keys)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Rows of any number of tasks → what goes out."""
        groups, frame = grouped(frame, self._keys)
        keys = key_bytes(groups, self._keys)
        found = piled(frame, groups, keys, self._growing, context, self.state_table)
        return of_groups(found, groups, self._keys)


def piled(
    frame: pl.DataFrame, groups: pl.DataFrame, keys: list[bytes], growing: Growing, context: OperatorContext, table: str
) -> pl.DataFrame:
    """Take a batch into lists; what goes out, as of :func:`towpath.operators.keyed_rows.reduced`."""
    lists = KeptLists(groups, keys, context, table)
    growth = grown(lists, frame, growing)
    lists.write(growth)
    return growth.found


def grown(lists: KeptLists, frame: pl.DataFrame, growing: Growing) -> Growth:
    """What a batch makes of lists; nothing is written yet."""
    new = growing.rows(frame)
    return growing.grow(lists.read(new.schema, growing.needs(new)), new)


class KeptLists:
    """The lists of a batch's keys, by the groups of the batch."""

    def __init__(self, groups: pl.DataFrame, keys: list[bytes], context: OperatorContext, name: str) -> None:
        self._name = name
        self._keys = keys
        self._lists: list[tuple[ListTable[Row, Any], range]] = []
        self._heads: list[ListHead[Row, Any]] = []
        for partition, size in blocks(groups):
            table, begin = context.tasks[partition].lists(name), len(self._heads)
            self._lists.append((table, range(begin, begin + size)))
            self._heads += [head or NO_LIST for head in table.heads.get_many(keys[begin : begin + size])]

    @property
    def notes(self) -> list[Any]:
        """The note of each list; None where there is none."""
        return [head.note for head in self._heads]

    def read(self, schema: Mapping[str, Any], needed: pl.Series | None) -> pl.DataFrame:
        """Rows that are kept, in frames of this schema.

        Args:
            schema: columns, ``__group`` among them.
            needed: groups of which all are read, and not only those in the lists' heads; None: all groups.
        """
        rows = [head.rows for head in self._heads]
        wanted = range(len(rows)) if needed is None else sorted(needed.to_list())
        older = [at for at in wanted if not self._heads[at].short]
        for table, places in self._lists:
            mine = [at for at in older if at in places]
            if mine:
                for at, whole in zip(mine, table.get_many([self._keys[at] for at in mine]), strict=True):
                    rows[at] = whole
        return rows_of(rows, schema, self._name).select(list(schema))

    def write(self, growth: Growth, notes: Sequence[Any] | None = None) -> None:
        """Keep what is to be kept; lists that stay as they are, are not written.

        Args:
            growth: of these groups.
            notes: new note of each list; None: notes stay.
        """
        added: list[list[Row]] = [[] for _ in self._keys]
        for group, *row in growth.added.select(GROUP, pl.exclude(GROUP)).iter_rows():
            added[group].append(row)
        after = self.notes if notes is None else notes
        anew = set(growth.anew.to_list())
        for table, places in self._lists:
            replaced = [at for at in places if at in anew and not self._is(at, added[at], after[at])]
            longer = [at for at in places if (added[at] or after[at] != self._heads[at].note) and at not in anew]
            table.replace_many(*_at(replaced, self._keys, added, after))
            table.append_many(*_at(longer, self._keys, added, after))

    def _is(self, at: int, rows: list[Row], note: Any) -> bool:
        head = self._heads[at]
        return head.rows == rows and head.short and head.note == note


def _at(
    places: Sequence[int], keys: Sequence[bytes], rows: Sequence[list[Row]], notes: Sequence[Any]
) -> tuple[list[bytes], list[list[Row]], list[Any]]:
    return [keys[at] for at in places], [rows[at] for at in places], [notes[at] for at in places]
