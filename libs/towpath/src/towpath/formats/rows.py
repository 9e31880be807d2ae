"""What the formats have in common: fields and columns of sources, rows of sinks, and the batch."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from towpath.formats.avro_types import plain
from towpath.formats.framing import NotReadableError
from towpath.operators.decoded import Decoded, RowColumn, RowFrames
from towpath.operators.json_encode import PUBLIC_NAMES
from towpath.query.plan import SCHED, InputPlan

_COLUMNS = {field: column for column, field in PUBLIC_NAMES.items()}
"""Field of a sink's record → reserved column."""


def fields_of(source: InputPlan) -> dict[str, Any]:
    """Field → Polars type of its column."""
    fields = dict(source.schema)
    if source.emit_time is not None:
        fields.setdefault(source.emit_time, pl.Int64())
    return fields


def frames_of(source: InputPlan, get: Callable[[str, Any], Callable[[Any], Any]]) -> RowFrames:
    """Makes frames of decoded records.

    Args:
        source: their topic.
        get: how the value of a field, for a column of a type, is taken from a record.
    """
    columns = [RowColumn(column, dtype, get(column, dtype)) for column, dtype in source.schema.items()]
    if source.emit_time is None:
        return RowFrames(columns, {}, source.key_column)
    if source.emit_time in source.schema:
        return RowFrames(columns, {SCHED: source.emit_time}, source.key_column)
    columns.append(RowColumn(SCHED, pl.Int64(), get(source.emit_time, pl.Int64())))
    return RowFrames(columns, {}, source.key_column)


class RowDecoder(ABC):
    """Decodes the records of one topic one by one, and makes a frame of them."""

    def __init__(self, frames: RowFrames) -> None:
        self._frames = frames

    def decode(self, values: Sequence[bytes | None], keys: Sequence[bytes | None] = ()) -> Decoded:
        """Decode one batch; see :class:`towpath.operators.codec.RecordDecoder`.

        Raises:
            RegistryUnavailableError: a schema is needed, and the registry does not answer.
        """
        rows: dict[int, Any] = {}
        bad: dict[int, str] = {}
        for index, value in enumerate(values):
            try:
                rows[index] = self._row(value)
            except NotReadableError as error:
                bad[index] = str(error)
        return self._frames.decoded(len(values), rows, bad, keys)

    @abstractmethod
    def _row(self, value: bytes | None) -> Any:
        """A record as an object from which the values of its fields are taken.

        Raises:
            NotReadableError: it can't be read, now or ever.
            RegistryUnavailableError: its schema is needed, and the registry does not answer.
        """


def rows_of(frame: pl.DataFrame, fields: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a sink by field, as plain Python values; null where the frame lacks a reserved column."""
    chosen = []
    for field, dtype in fields.items():
        column = _COLUMNS.get(field, field)
        column = column if column in frame.columns else field
        value = pl.col(column) if column in frame.columns else pl.lit(None)
        chosen.append(value.cast(plain(dtype)).alias(field))
    return frame.select(chosen).to_dicts() if frame.height else []
