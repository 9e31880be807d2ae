"""A few rows kept per key, as in :mod:`towpath.operators.keyed_rows`, that go away when their key has rested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import polars as pl

from towpath.operators.expiry import Expiring, Expiry
from towpath.operators.keyed_rows import GROUP, KeptTables, Reduction, grouped, of_groups
from towpath.operators.keys import key_bytes
from towpath.query.plan import PARTITION, OperatorContext

_TOUCHED = "__touched"
"""Column of every kept row: event time of the newest row of its key."""

OWNER = "__owner"
"""Group of a row's key."""

_LIFE = "__life"
"""How often a row's key has begun anew in the batch before it."""


class ExpiringRows(Expiring):
    """Runs a :class:`~towpath.operators.keyed_rows.Reduction`; a key whose state is gone begins anew.

    A key that begins anew amid a batch is several groups there, of which the last one is kept. Output columns as of
    :class:`~towpath.operators.keyed_rows.KeyedRows`.
    """

    def __init__(
        self, keys: Sequence[str], reduction: Reduction, kept: Mapping[str, Any], table: str, expiry: Expiry
    ) -> None:
        """Fix what is kept.

        Args:
            keys: key columns.
            reduction: what is kept.
            kept: columns of the rows that are kept → Polars type.
            table: name of the state table, whose values are lists of rows.
            expiry: when it goes away.
        """
        super().__init__(keys, table, expiry, lambda rows: int(rows[0][-1]))
        self._reduction = reduction
        self._schema = pl.Schema({GROUP: pl.UInt32(), **kept, _TOUCHED: pl.Int64()})

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Rows of any number of tasks → what the reduction gives."""
        groups, rows = grouped(frame, self._keys)
        keys = key_bytes(groups, self._keys)
        tables = KeptTables(groups, keys, context, self.state_table)
        before = tables.read(self._schema)
        known = before.group_by(GROUP).agg(pl.col(_TOUCHED).first())
        touched = groups.select(GROUP).join(known, on=GROUP, how="left", maintain_order="left").get_column(_TOUCHED)
        anew = self._expiry.anew(rows, touched)
        kept = before.drop(_TOUCHED)
        if anew is None:
            owners, (after, found) = groups, self._reduction.step(kept, self._reduction.rows(rows))
        else:
            owners, after, found = self._by_life(rows, anew, kept)
        touched = self._expiry.touch(rows, touched)
        tables.write(after.with_columns(touched.gather(after.get_column(GROUP)).alias(_TOUCHED)))
        times = zip(groups.get_column(PARTITION).to_list(), keys, touched.to_list(), strict=True)
        self._expiring.touch(times, context)
        return of_groups(found, owners, self._keys)

    def _by_life(
        self, rows: pl.DataFrame, anew: pl.Series, kept: pl.DataFrame
    ) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
        """The same where keys begin anew: groups, rows to keep, with the groups of the keys, and rows that go out."""
        lives = in_lives(rows, anew, self._keys)
        before = renumbered(kept, lives.going_on, OWNER, GROUP)
        after, found = self._reduction.step(before, self._reduction.rows(lives.rows))
        return lives.groups, renumbered(after, lives.last, GROUP, OWNER), found.sort(GROUP, maintain_order=True)


class Lives(NamedTuple):
    """A batch in which keys begin anew: each life of a key is a group.

    Attributes:
        groups: the lives.
        rows: the batch, with ``__group`` of the life.
        going_on: ``__group`` of lives that had begun before the batch, and :data:`OWNER`, the group of the key.
        last: the same of each key's last life.
    """

    groups: pl.DataFrame
    rows: pl.DataFrame
    going_on: pl.DataFrame
    last: pl.DataFrame


def in_lives(rows: pl.DataFrame, anew: pl.Series, keys: Sequence[str]) -> Lives:
    """Cut a batch into lives.

    Args:
        rows: the batch, with ``__group`` of the key.
        anew: which rows begin their key anew.
        keys: key columns.
    """
    owned = rows.rename({GROUP: OWNER}).with_columns(anew.cast(pl.UInt32).alias(_LIFE))
    owned = owned.with_columns(pl.col(_LIFE).cum_sum().over(OWNER))
    groups, lives = grouped(owned, [*keys, OWNER, _LIFE])
    going_on = groups.filter(pl.col(_LIFE) == 0).select(GROUP, OWNER)
    last = groups.filter(pl.col(_LIFE) == pl.col(_LIFE).max().over(OWNER)).select(GROUP, OWNER)
    return Lives(groups, lives, going_on, last)


def renumbered(rows: pl.DataFrame, numbers: pl.DataFrame, old: str, new: str) -> pl.DataFrame:
    """Rows whose group is among the old ones, under the new one."""
    pairs = numbers.select(pl.col(old).alias(GROUP), pl.col(new).alias(_NEW))
    joined = rows.join(pairs, on=GROUP, how="inner", maintain_order="left")
    return joined.with_columns(pl.col(_NEW).alias(GROUP)).drop(_NEW)


_NEW = "__new"
