"""Operators that can say which entry of state a row needs, before they are run on it.

While a task's state is on its way, the runtime keeps rows back whose entry is not there yet. It can do so only with
such operators; all others get their first row when all state is there.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import polars as pl

from towpath.query.plan import OperatorContext


@runtime_checkable
class Keyed(Protocol):
    """An operator that reads and writes, for each row, one entry of one table and nothing else."""

    state_table: str
    """Name of the table."""

    def state_keys(self, frame: pl.DataFrame) -> list[bytes]:
        """Key of each row's entry, in row order.

        Raises:
            ValueError: a row has no key.
        """
        ...

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """See :class:`towpath.query.plan.Operator`."""
        ...
