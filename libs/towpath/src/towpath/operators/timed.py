"""Operators that put something out when event time has come so far."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import polars as pl

from towpath.query.plan import OperatorContext


@runtime_checkable
class Timed(Protocol):
    """An operator with timers, which are part of its state."""

    def due(self, partition: int, context: OperatorContext) -> int | None:
        """The earliest timer of a task, in ms of event time; None: there is none."""
        ...

    def close(self, partition: int, watermark_ms: int, context: OperatorContext, most: int) -> pl.DataFrame:
        """Rows for timers that the watermark has reached, about ``most`` entries of state at a time."""
        ...
