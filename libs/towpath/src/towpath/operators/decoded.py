"""A batch of records as a frame: what every decoder gives, and how rows of single records become one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from towpath.operators.marks import Marks

DOES_NOT_FIT = (pl.exceptions.PolarsError, OverflowError, TypeError, ValueError)
"""What is raised for a value that does not fit its column."""


@dataclass(frozen=True)
class Poison:
    """A record that can't be decoded: its place in the batch, and why."""

    index: int
    reason: str


class Decoded(NamedTuple):
    """A batch of records as a frame.

    Attributes:
        frame: the rows of all good records, in order.
        rows: int64 array with the number of rows of each record; 0 for a poison record. ``numpy.repeat(partitions,
            rows)`` is the partition of each row.
        bad: the poison records, in order.
        marks: place → watermarks that the record holds instead of rows.
    """

    frame: pl.DataFrame
    rows: npt.NDArray[np.int64]
    bad: list[Poison]
    marks: Mapping[int, Marks] = MappingProxyType({})


class RowColumn(NamedTuple):
    """A column, its Polars type, and how its value is taken from a decoded record."""

    name: str
    dtype: Any
    get: Callable[[Any], Any]


class RowFrames:
    """Makes a frame of records that were decoded one by one, each to an object that is a row."""

    def __init__(self, columns: Sequence[RowColumn], copies: Mapping[str, str], key_column: str | None) -> None:
        """Fix the columns.

        Args:
            columns: those that come from the record's value.
            copies: column → the column that it is a copy of.
            key_column: column that gets the record's key as text.
        """
        self._columns = tuple(columns)
        self._copies = copies
        self._key_column = key_column

    def frame(self, rows: Sequence[Any], keys: Sequence[bytes | None]) -> pl.DataFrame:
        """All rows as a frame.

        Raises:
            PolarsError, OverflowError, TypeError, ValueError: a value does not fit its column, or a key is no text.
        """
        return self.complete(
            pl.DataFrame(
                [pl.Series(name, list(map(get, rows)), dtype=dtype, strict=True) for name, dtype, get in self._columns]
            ),
            keys,
        )

    def complete(self, frame: pl.DataFrame, keys: Sequence[bytes | None]) -> pl.DataFrame:
        """Add the columns that are no fields."""
        if self._copies:
            frame = frame.with_columns(pl.col(field).alias(name) for name, field in self._copies.items())
        if self._key_column is None:
            return frame
        text = [None if key is None else key.decode() for key in keys]
        return frame.with_columns(pl.Series(self._key_column, text, dtype=pl.String))

    def decoded(self, count: int, rows: dict[int, Any], bad: dict[int, str], keys: Sequence[bytes | None]) -> Decoded:
        """A batch of which some records may be poison, and others may hold values that do not fit.

        Args:
            count: records of the batch.
            rows: place → row of each record that could be decoded.
            bad: place → why a record could not.
            keys: of all records; empty where they are not needed.
        """
        try:
            frame = self.frame(list(rows.values()), chosen(keys, rows))
        except DOES_NOT_FIT:
            # Rare: a value has the right type but does not fit the column, or a key is no text. A frame per row.
            for index in list(rows):
                try:
                    self.frame([rows[index]], chosen(keys, (index,)))
                except DOES_NOT_FIT as error:
                    bad[index] = str(error)
                    del rows[index]
            frame = self.frame(list(rows.values()), chosen(keys, rows))
        counts = np.zeros(count, np.int64)
        counts[list(rows)] = 1
        return Decoded(frame, counts, [Poison(index, bad[index]) for index in sorted(bad)])


def chosen(keys: Sequence[bytes | None], indices: Iterable[int]) -> list[bytes | None]:
    """The keys at these places; none where there are no keys."""
    return [keys[index] for index in indices] if keys else []
