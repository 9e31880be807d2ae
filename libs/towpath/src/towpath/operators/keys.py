"""The text of a key: what a record's key holds, what the partitioner hashes and what state is stored under.

One column: the UTF-8 of its text (decimal digits of an integer, ``true``/``false``, the text itself).
Several columns: a JSON array of them without blanks, so that ``("a", "bc")`` and ``("ab", "c")`` differ.
Every part that looks up a key, inside or outside, uses this form.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import polars as pl

KEY_TYPES = (
    pl.Int8,
    pl.Int16,
    pl.Int32,
    pl.Int64,
    pl.UInt8,
    pl.UInt16,
    pl.UInt32,
    pl.UInt64,
    pl.String,
    pl.Boolean,
)
"""Types with one text per value. Floats have several (-0.0, NaN), times depend on the unit."""


def is_key_type(dtype: Any, *, alone: bool) -> bool:
    """Whether a column of this Polars type can be (part of) a key; Binary only ``alone``, since JSON has no bytes."""
    return dtype in KEY_TYPES or (alone and dtype == pl.Binary)


def key_bytes(frame: pl.DataFrame, columns: Sequence[str]) -> list[bytes]:
    """Key of each row, in row order.

    Args:
        frame: rows whose key columns hold no null.
        columns: one or more columns of :data:`KEY_TYPES`, or one Binary column.

    Raises:
        ValueError: a key column holds a null; :func:`null_keys` finds such rows first.
    """
    keys = key_series(frame, columns)
    if keys.null_count():
        raise ValueError(f"a key column holds a null: {', '.join(columns)}")
    return keys.to_list()


def key_series(frame: pl.DataFrame, columns: Sequence[str]) -> pl.Series:
    """Key of each row as a Binary series; null where a part of the key is null."""
    if len(columns) == 1:
        column = frame.get_column(columns[0])
        return (column if column.dtype == pl.Binary else column.cast(pl.String).cast(pl.Binary)).alias("key")
    parts = [_json_part(frame, column) for column in columns]
    body = pl.concat_str(parts, separator=",", ignore_nulls=False)
    return frame.select(pl.concat_str([pl.lit("["), body, pl.lit("]")]).cast(pl.Binary).alias("key")).to_series()


def key_frame(keys: Sequence[bytes], schema: Mapping[str, Any]) -> pl.DataFrame:
    """Inverse of :func:`key_bytes`: the columns of keys.

    Args:
        keys: as :func:`key_bytes` gives them.
        schema: key column → Polars type, one of :data:`KEY_TYPES` each.
    """
    if len(schema) > 1:
        return pl.DataFrame([msgspec.json.decode(key) for key in keys], schema=dict(schema), orient="row")
    ((name, dtype),) = schema.items()
    text = pl.Series(name, keys, dtype=pl.Binary).cast(pl.String)
    return pl.DataFrame([text == "true" if dtype == pl.Boolean else text.cast(dtype)])


def null_keys(frame: pl.DataFrame, columns: Sequence[str]) -> pl.Series | None:
    """Boolean mask of the rows without a complete key, or None if there is none."""
    if not any(frame.get_column(column).null_count() for column in columns):
        return None
    return frame.select(pl.any_horizontal(pl.col(list(columns)).is_null()).alias("null")).to_series()


def key_text(*parts: str | int | bool) -> bytes:
    """The key of these values, in the form of :func:`key_bytes`; for look-ups by hand."""
    if len(parts) == 1:
        return parts[0].encode() if isinstance(parts[0], str) else msgspec.json.encode(parts[0])
    return msgspec.json.encode(parts)


def _json_part(frame: pl.DataFrame, column: str) -> pl.Expr:
    if frame.schema[column] != pl.String:
        return pl.col(column).cast(pl.String)
    # {"k":"text"} without its frame is the text as JSON; Polars has no JSON encoding of a bare string.
    wrapped = pl.struct(pl.col(column).alias("k")).struct.json_encode()
    quoted = wrapped.str.slice(len('{"k":')).str.strip_suffix("}")
    return pl.when(pl.col(column).is_null()).then(None).otherwise(quoted)
