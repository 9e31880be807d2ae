"""Rows that came too late for their window, on their way to a topic of their own.

They are told apart *behind* the gate, where rows wait for state: a row that waits is judged when it comes, by the
watermark that it carries, and is put out or taken in when its turn comes, once, by whoever owns the task then.
"""

from __future__ import annotations

from typing import NamedTuple

import polars as pl

from towpath.query.plan import EVENTS, PARTITION, RESERVED_PREFIX, SCHED, SCHED_NEWEST, OperatorContext

_SENT = (PARTITION, SCHED, SCHED_NEWEST, EVENTS)
"""Reserved columns that a sink has a use for."""


class LateRows(NamedTuple):
    """What becomes of late rows; ``topic``: where they are written, None: they are only counted."""

    topic: str | None = None

    def report(self, rows: pl.DataFrame, context: OperatorContext) -> None:
        """Count late rows, and write them with all columns that are the user's."""
        if not rows.height:
            return
        context.late(rows.height)
        if self.topic is not None:
            names = [name for name in rows.columns if not name.startswith(RESERVED_PREFIX) or name in _SENT]
            context.emit(self.topic, rows.select(names))


COUNTED = LateRows()
"""They are counted, and nothing else."""
