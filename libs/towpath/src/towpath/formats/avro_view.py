"""A query's view of records that were written with some Avro schema: Avro's schema resolution, on plain values.

====================  ==============================================================================================
column                Avro type of the writer that it takes
====================  ==============================================================================================
Int8 … Int32, UInt8,  int
UInt16
UInt32, Int64         int, long; so timestamp-millis is a number of milliseconds, timestamp-micros one of microseconds
Float32, Float64      int, long, float; Float64 double, too
Boolean               boolean
String                string, bytes in UTF-8, enum
Binary                bytes, string, fixed
Decimal(p, s)         decimal of a scale of at most s
List(T)               array of what T takes
====================  ==============================================================================================

A union is taken if one of its types besides null is; a record that holds another of them is not. Logical types other
than decimal are the types beneath them. Fields of the writer that the query does not have are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from towpath.formats.avro_types import INTEGERS, instance

_DECIMAL = "decimal"
_NULL = "null"

_TAKES: Mapping[Any, Mapping[str, str]] = {
    **{dtype: {"int": avro} | ({"long": avro} if avro == "long" else {}) for dtype, avro in INTEGERS.items()},
    pl.Float32: dict.fromkeys(("int", "long", "float"), "float"),
    pl.Float64: dict.fromkeys(("int", "long", "float", "double"), "double"),
    pl.Boolean: {"boolean": "boolean"},
    pl.String: dict.fromkeys(("string", "bytes"), "string"),
    pl.Binary: dict.fromkeys(("bytes", "string"), "bytes"),
}
"""Column type → writer's primitive type → as what it is read."""

_NAMED: Mapping[Any, str] = {pl.String: "enum", pl.Binary: "fixed"}
"""Column type → the writer's named type that it takes, too."""


class DoesNotFitError(ValueError):
    """Records of a schema can't be rows of the query; the text names the first field that does not fit."""


@dataclass(frozen=True)
class View:
    """How records of one schema are read.

    Attributes:
        schema: the reader's schema, as JSON; it has only fields that both writer and query have.
        absent: fields of the query that the writer lacks.
    """

    schema: str
    absent: frozenset[str]


def view_of(writer: Any, fields: Mapping[str, Any]) -> View:
    """The view of records that were written with this schema.

    Args:
        writer: the schema, with all named types in the place of their names.
        fields: field → Polars type.

    Raises:
        DoesNotFitError: the schema is not that of a record, or a field does not fit.
    """
    if not isinstance(writer, Mapping) or writer.get("type") != "record":
        raise DoesNotFitError(f"the schema describes {described(writer)}, no record")
    types = {field["name"]: field["type"] for field in writer["fields"]}
    defined: set[str] = set()
    read = []
    for name, dtype in fields.items():
        if name not in types:
            continue
        try:
            read.append({"name": name, "type": _once(_read_as(types[name], instance(dtype)), defined)})
        except DoesNotFitError as error:
            raise DoesNotFitError(f"field {name!r}: {error}") from None
    schema = {"type": "record", "name": writer["name"], "fields": read}
    return View(json.dumps(schema), frozenset(fields) - types.keys())


def without_logical_types(schema: Any) -> Any:
    """The same schema with all logical types but decimals taken for the types beneath them."""
    if isinstance(schema, list):
        return [without_logical_types(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: value for name, value in schema.items() if name != "logicalType" or value == _DECIMAL}
    for name in ("type", "items", "values"):
        if name in kept:
            kept[name] = without_logical_types(kept[name])
    if "fields" in kept:
        kept["fields"] = [{**field, "type": without_logical_types(field["type"])} for field in kept["fields"]]
    return kept


def described(schema: Any) -> str:
    """A writer's type in a word, for messages."""
    if isinstance(schema, list):
        return f"a union of {', '.join(map(described, schema))}"
    if not isinstance(schema, Mapping):
        return str(schema)
    if schema.get("logicalType") == _DECIMAL:
        return f"decimal({schema.get('precision')}, {schema.get('scale', 0)})"
    if schema["type"] == "array":
        return f"an array of {described(schema['items'])}"
    return f"{schema['type']} {schema['name']}" if "name" in schema else str(schema["type"])


def _read_as(writer: Any, dtype: Any) -> Any:
    """The reader's type for a writer's type, or DoesNotFitError."""
    if not isinstance(writer, list):
        return _read_one(writer, dtype)
    found = [_NULL] if _NULL in writer else []
    problem: DoesNotFitError | None = None
    for each in writer:
        if each == _NULL:
            continue
        try:
            read = _read_one(each, dtype)
        except DoesNotFitError as error:
            problem = error
        else:
            found += [read] if read not in found else []
    if problem is not None and found in ([], [_NULL]):
        raise problem
    return found


def _read_one(writer: Any, dtype: Any) -> Any:
    kind = writer["type"] if isinstance(writer, Mapping) else writer
    decimal = isinstance(writer, Mapping) and writer.get("logicalType") == _DECIMAL and kind in ("bytes", "fixed")
    if kind == _NULL:
        return _NULL
    if decimal or isinstance(dtype, pl.Decimal):
        if decimal and isinstance(dtype, pl.Decimal) and writer.get("scale", 0) <= dtype.scale:
            return dict(writer)
    elif isinstance(dtype, pl.List):
        if kind == "array":
            return {"type": "array", "items": _read_as(writer["items"], instance(dtype.inner))}
    elif kind == _NAMED.get(type(dtype)):
        return dict(writer)
    elif kind in _TAKES[type(dtype)]:
        return _TAKES[type(dtype)][kind]
    raise DoesNotFitError(f"the record has {described(writer)}, which can't be read as {dtype}")


def _once(read: Any, defined: set[str]) -> Any:
    """The same with every named type defined where it comes first, and named elsewhere."""
    if isinstance(read, list):
        return [_once(each, defined) for each in read]
    if not isinstance(read, dict):
        return read
    if read["type"] == "array":
        return {**read, "items": _once(read["items"], defined)}
    if "name" not in read:
        return read
    if read["name"] in defined:
        return read["name"]
    defined.add(read["name"])
    return read
