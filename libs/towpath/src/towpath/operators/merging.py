"""Operators that make the same of rows of a key whether these come one by one or merged to one.

In a catch-up the runtime merges the rows of many batches before such an operator sees them, so that state is touched,
and an output written, once a transaction for each key instead of once a batch. Known as mini-batch aggregation, as in
Flink's SQL.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from towpath.operators.combine import Combine


@runtime_checkable
class Merging(Protocol):
    """An operator before which rows may be merged."""

    @property
    def merger(self) -> Combine | None:
        """What merges them; None: each row is to be seen."""
        ...
