"""Rows that pile up per key, as in :mod:`towpath.operators.growing_rows`, and go away when their key has rested."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from towpath.operators.expiring_rows import OWNER, in_lives, renumbered
from towpath.operators.expiry import Expiring, Expiry
from towpath.operators.growing_rows import Growing, Growth, KeptLists, grown
from towpath.operators.keyed_rows import GROUP, grouped, of_groups
from towpath.operators.keys import key_bytes
from towpath.query.plan import PARTITION, OperatorContext


class ExpiringLists(Expiring):
    """Runs a :class:`~towpath.operators.growing_rows.Growing`; a key whose state is gone begins anew.

    The note of a list is the event time of its key's newest row. As for the rest see
    :class:`~towpath.operators.expiring_rows.ExpiringRows`.
    """

    def __init__(self, keys: Sequence[str], growing: Growing, table: str, expiry: Expiry) -> None:
        """Fix what is kept.

        Args:
            keys: key columns.
            growing: what is kept.
            table: name of the state table, of lists of rows.
            expiry: when it goes away.
        """
        super().__init__(keys, table, expiry, lambda rows: int(rows.note))
        self._growing = growing

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Rows of any number of tasks → what goes out."""
        groups, rows = grouped(frame, self._keys)
        keys = key_bytes(groups, self._keys)
        lists = KeptLists(groups, keys, context, self.state_table)
        touched = pl.Series("touched", lists.notes, pl.Int64)
        anew = self._expiry.anew(rows, touched)
        if anew is None:
            owners, growth = groups, grown(lists, rows, self._growing)
        else:
            owners, growth = self._by_life(lists, rows, anew)
        times = self._expiry.touch(rows, touched).to_list()
        lists.write(growth, times)
        self._expiring.touch(zip(groups.get_column(PARTITION).to_list(), keys, times, strict=True), context)
        return of_groups(growth.found, owners, self._keys)

    def _by_life(self, lists: KeptLists, rows: pl.DataFrame, anew: pl.Series) -> tuple[pl.DataFrame, Growth]:
        """The same where keys begin anew: the groups of what goes out, and what becomes of the keys' lists."""
        lives = in_lives(rows, anew, self._keys)
        new = self._growing.rows(lives.rows)
        needed = self._growing.needs(new)
        if needed is not None:
            needed = renumbered(needed.to_frame(), lives.going_on, GROUP, OWNER).get_column(GROUP)
        before = renumbered(lists.read(new.schema, needed), lives.going_on, OWNER, GROUP)
        growth = self._growing.grow(before, new)
        begun = lives.last.join(lives.going_on, on=GROUP, how="anti").select(GROUP)
        dropped = pl.concat([growth.anew.to_frame(), begun]).unique()
        return lives.groups, Growth(
            added=renumbered(growth.added, lives.last, GROUP, OWNER),
            anew=renumbered(dropped, lives.last, GROUP, OWNER).get_column(GROUP),
            found=growth.found.sort(GROUP, maintain_order=True),
        )
