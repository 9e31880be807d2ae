"""Stateless steps on whole frames: filter, columns, user functions; each row's result depends on that row alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from towpath.operators.json_encode import encode_json
from towpath.operators.keys import null_keys
from towpath.query.plan import PARTITION, RESERVED_PREFIX, OperatorContext

BatchFunction = Callable[[pl.DataFrame], pl.DataFrame]
"""User code on a batch; keeps the columns that start with ``__``."""


def reserved_columns(frame: pl.DataFrame) -> list[str]:
    """Names of the columns that are Towpath's own."""
    return [name for name in frame.columns if name.startswith(RESERVED_PREFIX)]


class Filter:
    """Keeps the rows for which all predicates are true; null counts as false, as in SQL."""

    def __init__(self, predicates: Sequence[pl.Expr]) -> None:
        self._predicates = list(predicates)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:  # noqa: ARG002
        """Rows → some of the rows."""
        return frame.filter(*self._predicates)


class WithColumns:
    """Adds or replaces columns."""

    def __init__(self, expressions: Sequence[pl.Expr]) -> None:
        self._expressions = list(expressions)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:  # noqa: ARG002
        """Rows → the same rows with more columns."""
        return frame.with_columns(self._expressions)


class Select:
    """Replaces the columns; the reserved ones stay."""

    def __init__(self, expressions: Sequence[pl.Expr]) -> None:
        self._expressions = list(expressions)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:  # noqa: ARG002
        """Rows → the same rows with other columns."""
        # Reserved columns first, so that a literal is repeated for each row instead of giving one.
        return frame.select(*reserved_columns(frame), *self._expressions)


class Keep:
    """Drops the columns that nobody downstream needs, before they cross an edge."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = list(columns)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:  # noqa: ARG002
        """Rows → the same rows with fewer columns."""
        return frame.select(*self._columns, *reserved_columns(frame))


class MapBatches:
    """A user function on each batch."""

    def __init__(self, function: BatchFunction) -> None:
        self._function = function

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:  # noqa: ARG002
        """Rows → what the function makes of them."""
        return self._function(frame)


class RequireKey:
    """Sends rows whose key is null to the dead-letter topic: they belong to no task of a keyed stage."""

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = list(keys)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:
        """Rows → the rows that have a key."""
        missing = null_keys(frame, self._keys)
        if missing is None:
            return frame
        lost = frame.filter(missing)
        reason = f"the key is null: {', '.join(self._keys)}"
        for partition, value in zip(lost.get_column(PARTITION), encode_json(lost), strict=True):
            context.dead_letter(partition, value, reason)
        return frame.filter(~missing)
