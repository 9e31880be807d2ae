"""Polars types as Avro types: what a source may have, and the schema of a sink."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import polars as pl

_INT, _LONG = "int", "long"

INTEGERS: Mapping[Any, str] = {
    pl.Int8: _INT,
    pl.Int16: _INT,
    pl.Int32: _INT,
    pl.UInt8: _INT,
    pl.UInt16: _INT,
    pl.UInt32: _LONG,
    pl.Int64: _LONG,
}
"""Column type → the narrowest Avro type that holds all its values."""

SCALARS: Mapping[Any, str] = {
    **INTEGERS,
    pl.Float32: "float",
    pl.Float64: "double",
    pl.Boolean: "boolean",
    pl.String: "string",
    pl.Binary: "bytes",
}
"""Column types that both sources and sinks may have, besides decimals and lists."""

_UNITS = {"ms": "millis", "us": "micros", "ns": "nanos"}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_NAME = re.compile(r"[^A-Za-z0-9_]")

MOST_DIGITS = 38
"""Precision of a decimal column that states none."""


def instance(dtype: Any) -> Any:
    """A Polars type with its parameters, also where the bare class is given."""
    return dtype() if isinstance(dtype, type) else dtype


def check_name(name: str) -> None:
    """Refuse a name that no Avro field can have.

    Raises:
        ValueError: with the remedy.
    """
    if not _NAME.fullmatch(name):
        raise ValueError("the names of Avro fields have ASCII letters, digits and _ alone; rename it")


def check_record_name(name: str) -> None:
    """Refuse what is no full name of an Avro record.

    Raises:
        ValueError: with an example.
    """
    if not all(_NAME.fullmatch(part) for part in name.split(".")):
        raise ValueError(f"record={name!r}: expected a full name such as 'shop.Total'")


def check_readable(dtype: Any) -> None:
    """Refuse a column type into which no Avro field can be read.

    Raises:
        ValueError: naming those that can.
    """
    if type(instance(dtype)) in SCALARS or isinstance(instance(dtype), pl.Decimal):
        return
    if isinstance(dtype, pl.List):
        check_readable(dtype.inner)
        return
    names = ", ".join(sorted(known.__name__ for known in (*SCALARS, pl.Decimal, pl.List)))
    raise ValueError(f"an Avro field can't be read as {dtype}; use one of {names}")


def written_type(dtype: Any) -> Any:
    """The Avro type in which a column's values are written, null aside.

    Raises:
        ValueError: there is none; says what to do.
    """
    dtype = instance(dtype)
    if type(dtype) in SCALARS:
        return SCALARS[type(dtype)]
    match dtype:
        case pl.Decimal():
            precision = dtype.precision or MOST_DIGITS
            return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": dtype.scale}
        case pl.Datetime():
            kind = "local-timestamp" if dtype.time_zone is None else "timestamp"
            return {"type": _LONG, "logicalType": f"{kind}-{_UNITS[dtype.time_unit]}"}
        case pl.Date():
            return {"type": _INT, "logicalType": "date"}
        case pl.Enum() | pl.Categorical():
            return "string"
        case pl.List() | pl.Array():
            return {"type": "array", "items": nullable(dtype.inner)}
        case pl.UInt64():
            raise ValueError("UInt64 has no Avro type: cast it to Int64, or to Decimal(20, 0)")
        case _:
            raise ValueError(f"{dtype} has no Avro type here: cast it, or leave it out")


def nullable(dtype: Any) -> list[Any]:
    """The same or null."""
    return ["null", written_type(dtype)]


def plain(dtype: Any) -> Any:
    """The Polars type whose Python values a serialiser writes as they are."""
    dtype = instance(dtype)
    match dtype:
        case pl.Datetime():
            return pl.Int64()
        case pl.Date():
            return pl.Int32()
        case pl.Enum() | pl.Categorical():
            return pl.String()
        case pl.List() | pl.Array():
            return pl.List(plain(dtype.inner))
        case _:
            return dtype


def record_name(topic: str) -> str:
    """Name of a topic's record: the topic's, with ``_`` for what no name can have."""
    name = _NO_NAME.sub("_", topic)
    return f"_{name}" if name[0].isdigit() else name


def record_schema(name: str, fields: Mapping[str, Any]) -> str:
    """The Avro schema, as JSON, of records with these fields, each of which may be null and is so by default.

    Args:
        name: full name of the record.
        fields: field → Polars type.

    Raises:
        ValueError: naming the field that can't be written.
    """
    described = []
    for field, dtype in fields.items():
        try:
            check_name(field)
            described.append({"name": field, "type": nullable(dtype), "default": None})
        except ValueError as error:
            raise ValueError(f"column {field!r}: {error}") from error
    return json.dumps({"type": "record", "name": name, "fields": described})
