"""JSON records → frame: strict about types, and one poison record never spoils the others.

msgspec decides what a record is: it decodes each by itself into a struct that has only the needed fields, and checks
the others without making objects of them. Measured on NEXMark events of 330 bytes, thousand rows per CPU-second: three
fields 2,380, all 23 fields 590. Polars' ``read_ndjson`` gave 1,280 and 880, but it turns ``"5"`` into 5 and does not
say which record is broken.

Where records come as cells of one buffer, those in plain JSON are decoded to columns at once
(:mod:`towpath_native.json_columns`), three times as fast; msgspec has the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from operator import attrgetter
from typing import Annotated, Any

import msgspec
import numpy as np
import polars as pl

from towpath.operators.decoded import DOES_NOT_FIT, Decoded, Poison, RowColumn, RowFrames, chosen
from towpath.query.plan import SCHED
from towpath_native import WHY_NOT
from towpath_native.cells import Cells
from towpath_native.json_columns import MOST_FIELDS, Column, Field, JsonColumns, Kind
from towpath_native.text import TextColumn

_SIGNED: Mapping[Any, int] = {pl.Int8: 8, pl.Int16: 16, pl.Int32: 32, pl.Int64: 64}
_UNSIGNED: Mapping[Any, int] = {pl.UInt8: 8, pl.UInt16: 16, pl.UInt32: 32}
_PLAIN: Mapping[Any, Any] = {pl.String: str, pl.Boolean: bool, pl.Float64: float, pl.Decimal: Decimal}

_OTHER_PLAIN: Mapping[Any, Field] = {
    pl.Float64: Field(Kind.FLOAT),
    pl.Boolean: Field(Kind.BOOLEAN),
    pl.String: Field(Kind.TEXT),
}

_BROKEN = (msgspec.MsgspecError, UnicodeDecodeError, TypeError, RecursionError)


def python_type(dtype: Any) -> Any:
    """The type by which msgspec checks a JSON value for a column of this Polars type.

    Raises:
        ValueError: no JSON value has this type.
    """
    kind = dtype if isinstance(dtype, type) else type(dtype)
    if kind in _SIGNED:
        half = 2 ** (_SIGNED[kind] - 1)
        return Annotated[int, msgspec.Meta(ge=-half, le=half - 1)]
    if kind in _UNSIGNED:
        return Annotated[int, msgspec.Meta(ge=0, le=2 ** _UNSIGNED[kind] - 1)]
    if kind in _PLAIN:
        return _PLAIN[kind]
    if isinstance(dtype, pl.List):
        return list[python_type(dtype.inner) | None]  # type: ignore[misc]  # built at run time
    names = ", ".join(sorted(known.__name__ for known in (*_SIGNED, *_UNSIGNED, *_PLAIN, pl.List)))
    raise ValueError(f"a JSON field can't be read as {dtype}; use one of {names}")


def plain_field(dtype: Any) -> Field | None:
    """How plain JSON is decoded to a column of this Polars type; None: it is not."""
    kind = dtype if isinstance(dtype, type) else type(dtype)
    if kind in _SIGNED:
        half = 2 ** (_SIGNED[kind] - 1)
        return Field(Kind.INTEGER, -half, half - 1)
    if kind in _UNSIGNED:
        return Field(Kind.INTEGER, 0, 2 ** _UNSIGNED[kind] - 1)
    return _OTHER_PLAIN.get(kind)


class JsonDecoder:
    """Decodes the needed fields of JSON objects; absent and null fields become null, others are skipped."""

    def __init__(self, schema: Mapping[str, Any], emit_time: str | None = None, key_column: str | None = None) -> None:
        """Fix the fields.

        Args:
            schema: column → Polars type; the JSON field has the column's name.
            emit_time: field with the intended emit time in ms, which becomes ``__sched_ms``.
            key_column: column that gets the record's key as text.

        Raises:
            ValueError: a type that no JSON value has.
        """
        fields = {column: column for column in schema}
        types = dict(schema)
        if emit_time is not None and emit_time not in schema:
            fields[SCHED], types[SCHED] = emit_time, pl.Int64
        attributes = {column: f"f{number}" for number, column in enumerate(fields)}
        row = msgspec.defstruct(
            "Row",
            [(attributes[column], python_type(types[column]) | None, None) for column in fields],
            rename={attributes[column]: field for column, field in fields.items()},
            gc=False,
        )
        self._row: Callable[[bytes], Any] = msgspec.json.Decoder(row).decode
        self._columns = [RowColumn(column, types[column], attrgetter(attributes[column])) for column in fields]
        self._plain = _plain({field: types[column] for column, field in fields.items()})
        copies = {SCHED: emit_time} if emit_time is not None and emit_time in schema else {}
        self._frames = RowFrames(self._columns, copies, key_column)

    def decode(self, values: Sequence[bytes | None], keys: Sequence[bytes | None] = ()) -> Decoded:
        """Decode one batch.

        Args:
            values: record values; None (a tombstone) is poison, since a source of JSON rows has none.
            keys: record keys, as long as ``values``; needed only with a ``key_column``.
        """
        try:
            if self._plain is not None and isinstance(values, Cells):
                return self._decode_plain(self._plain, values, keys)
            rows = list(map(self._row, values))  # type: ignore[arg-type]  # None raises TypeError
            return Decoded(self._frames.frame(rows, keys), np.ones(len(rows), np.int64), [])
        except (*_BROKEN, *DOES_NOT_FIT):
            return self._decode_singly(values, keys)

    def _decode_plain(self, plain: JsonColumns, values: Cells, keys: Sequence[bytes | None]) -> Decoded:
        """Decode a batch by columns, and the odd records of it singly."""
        columns, odd = plain.decode(values)
        found = [_series(name, column, dtype) for (name, dtype, _), column in zip(self._columns, columns, strict=True)]
        frame = self._frames.complete(pl.DataFrame(found), keys)
        if not len(odd):
            return Decoded(frame, np.ones(len(values), np.int64), [])
        others = self._decode_singly(list(values.at(odd)), chosen(keys, odd.tolist()))
        counts = np.ones(len(values), np.int64)
        counts[odd] = others.rows
        taken = np.delete(np.arange(len(values)), odd)
        order = np.argsort(np.concatenate([taken, odd[others.rows > 0]]), kind="stable")
        bad = [Poison(int(odd[each.index]), each.reason) for each in others.bad]
        return Decoded(pl.concat([frame[taken], others.frame])[order], counts, bad)

    def _decode_singly(self, values: Sequence[bytes | None], keys: Sequence[bytes | None]) -> Decoded:
        rows: dict[int, Any] = {}
        bad: dict[int, str] = {}
        for index, value in enumerate(values):
            try:
                rows[index] = self._row(value)  # type: ignore[arg-type]  # None raises TypeError
            except _BROKEN as error:
                bad[index] = "the record has no value (a tombstone)" if value is None else str(error)
        return self._frames.decoded(len(values), rows, bad, keys)


def _plain(types: Mapping[str, Any]) -> JsonColumns | None:
    """A decoder of plain JSON for these fields, where there can be one."""
    fields = {name: plain_field(dtype) for name, dtype in types.items()}
    known = {name: field for name, field in fields.items() if field is not None}
    if WHY_NOT is not None or len(known) < len(fields) or len(fields) > MOST_FIELDS:
        return None
    return JsonColumns(known)


def _series(name: str, column: Column, dtype: Any) -> pl.Series:
    series = pl.Series(column.values).cast(dtype).alias(name)
    if isinstance(column.values, TextColumn):
        return series
    missing = np.flatnonzero(column.valid == 0)
    return series.scatter(missing, None) if len(missing) else series
