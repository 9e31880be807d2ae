"""Operators that do something outside of Kafka, which no transaction can contain.

::

    decided, in state ──committed──▶ done outside, again after a crash ──▶ forgotten and told of, in a later transaction

What is decided says all of what will be done, so that doing it twice, by whomever, is the same as doing it once. Known
as transactional outbox.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import polars as pl

from towpath.query.plan import OperatorContext


@runtime_checkable
class Outside(Protocol):
    """An operator that needs something outside of Kafka."""

    def check(self) -> None:
        """Look whether it can be had.

        Raises:
            SettingsError: it can't; the text says what is to be changed.
        """
        ...


@runtime_checkable
class Outbox(Protocol):
    """An operator whose state says what is still to be done outside; it does nothing while state is on its way."""

    def due(self, partition: int, context: OperatorContext) -> int | None:
        """The earliest timer of a task, in ms of event time; None: there is none."""
        ...

    def close(self, partition: int, watermark_ms: int, context: OperatorContext, most: int) -> pl.DataFrame:
        """Rows for timers that the watermark has reached, about ``most`` entries of state at a time."""
        ...

    def held(self, partition: int, context: OperatorContext) -> int | None:
        """A moment that the task's watermark must not reach before everything that was decided is told of; or None."""
        ...

    def ready(self, partition: int, now_s: float, context: OperatorContext) -> bool:
        """Whether something is to be decided or done now; ``now_s``: monotonic time."""
        ...

    def deliver(self, partition: int, now_s: float, context: OperatorContext) -> pl.DataFrame:
        """Do one thing that is committed, decide what is due, and give rows that tell of what is done.

        Raises:
            StageStoppedError: it can't be done; it stays in state.
        """
        ...
