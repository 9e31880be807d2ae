"""Stateless steps on whole frames: filter, columns, user functions; each row's result depends on that row alone.

In expressions ``pl.all()`` means the user's columns, not the reserved ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl

from towpath.operators.json_encode import encode_json
from towpath.operators.keys import null_keys
from towpath.query.plan import PARTITION, RESERVED_PREFIX, OperatorContext

BatchFunction = Callable[[pl.DataFrame], pl.DataFrame]
"""User code on a batch; keeps the columns that start with ``__``."""


class Filter:
    """Keeps the rows for which all predicates are true; null counts as false, as in SQL."""

    def __init__(self, predicates: Sequence[pl.Expr]) -> None:
        self._predicates = list(predicates)
        self._wildcards = any(predicate.meta.has_multiple_outputs() for predicate in predicates)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:  # noqa: ARG002
        """Rows → some of the rows."""
        if not self._wildcards:
            return frame.filter(*self._predicates)
        kept = _visible(frame).select(pl.all_horizontal(self._predicates).alias("kept"))
        return frame.filter(kept.to_series())


class WithColumns:
    """Adds or replaces columns."""

    def __init__(self, expressions: Sequence[pl.Expr]) -> None:
        self._expressions = list(expressions)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:  # noqa: ARG002
        """Rows → the same rows with more columns."""
        return _visible(frame).with_columns(self._expressions).hstack(_reserved(frame))


class Select:
    """Replaces the columns; the reserved ones stay."""

    def __init__(self, expressions: Sequence[pl.Expr]) -> None:
        self._expressions = list(expressions)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:  # noqa: ARG002
        """Rows → the same rows with other columns."""
        rows = _visible(frame)
        names = rows.clear().select(self._expressions).columns
        # with_columns repeats a literal for each row, where select alone would give one.
        return rows.with_columns(self._expressions).select(names).hstack(_reserved(frame))


class Keep:
    """Drops the columns that nobody downstream needs, before they cross an edge."""

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = list(columns)

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:  # noqa: ARG002
        """Rows → the same rows with fewer columns."""
        # Column by column: a query over the frame would cost a batch of few rows more than anything else does.
        return pl.DataFrame([frame.get_column(name) for name in self._columns]).hstack(_reserved(frame))


class MapBatches:
    """A user function on each batch."""

    def __init__(self, function: BatchFunction) -> None:
        self._function = function

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:  # noqa: ARG002
        """Rows → what the function makes of them."""
        return self._function(frame)


class Explode:
    """A row for each element of a list; none for an empty list or null."""

    def __init__(self, column: str) -> None:
        self._column = column

    def process(self, frame: pl.DataFrame, context: OperatorContext) -> pl.DataFrame:  # noqa: ARG002
        """Rows → a row for each element."""
        return frame.filter(pl.col(self._column).list.len() > 0).explode(self._column)


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


def _visible(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select([name for name in frame.columns if not name.startswith(RESERVED_PREFIX)])


def _reserved(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.select([name for name in frame.columns if name.startswith(RESERVED_PREFIX)])
