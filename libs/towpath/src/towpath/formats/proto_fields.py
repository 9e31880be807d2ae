"""Fields of Protobuf messages and columns of rows: which fit each other, and how values are taken.

What is supported: scalars, enums, and repeated ones of both. A column holds every value of the field it is read from,
and a field every value of the column it is written from, so that nothing has to be judged record by record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import polars as pl
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
from google.protobuf.message import Message

from towpath.formats.avro_types import instance
from towpath.query.errors import nearest

_F = FieldDescriptor

_FIELD_RANGES: Mapping[int, tuple[int, int]] = {
    **dict.fromkeys((_F.TYPE_INT32, _F.TYPE_SINT32, _F.TYPE_SFIXED32), (-(2**31), 2**31 - 1)),
    **dict.fromkeys((_F.TYPE_INT64, _F.TYPE_SINT64, _F.TYPE_SFIXED64), (-(2**63), 2**63 - 1)),
    **dict.fromkeys((_F.TYPE_UINT32, _F.TYPE_FIXED32), (0, 2**32 - 1)),
    **dict.fromkeys((_F.TYPE_UINT64, _F.TYPE_FIXED64), (0, 2**64 - 1)),
}

_COLUMN_RANGES: Mapping[Any, tuple[int, int]] = {
    **{
        kind: (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        for kind, bits in zip((pl.Int8, pl.Int16, pl.Int32, pl.Int64), (8, 16, 32, 64), strict=True)
    },
    **{
        kind: (0, 2**bits - 1)
        for kind, bits in zip((pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64), (8, 16, 32, 64), strict=True)
    },
}

_READ_AS: Mapping[int, tuple[Any, ...]] = {
    _F.TYPE_FLOAT: (pl.Float32, pl.Float64),
    _F.TYPE_DOUBLE: (pl.Float64,),
    _F.TYPE_BOOL: (pl.Boolean,),
    _F.TYPE_STRING: (pl.String,),
    _F.TYPE_BYTES: (pl.Binary,),
    _F.TYPE_ENUM: (pl.String, pl.Int32, pl.Int64),
}
"""Field type → column types, integers aside."""

_WRITTEN_AS: Mapping[Any, tuple[int, ...]] = {
    pl.Float32: (_F.TYPE_FLOAT, _F.TYPE_DOUBLE),
    pl.Float64: (_F.TYPE_DOUBLE,),
    pl.Boolean: (_F.TYPE_BOOL,),
    pl.String: (_F.TYPE_STRING, _F.TYPE_ENUM),
    pl.Binary: (_F.TYPE_BYTES,),
}
"""Column type → field types, integers aside."""

_TYPE_NAMES = {getattr(_F, name): name.removeprefix("TYPE_").lower() for name in dir(_F) if name.startswith("TYPE_")}


def field_of(message: type[Message], name: str) -> FieldDescriptor:
    """The field of that name.

    Raises:
        ValueError: there is none; names the nearest.
    """
    fields = _descriptor(message).fields_by_name
    field = fields.get(name)
    if field is None:
        known = list(fields)
        raise ValueError(
            f"message {_descriptor(message).full_name} has no such field{nearest(name, known)} "
            f"(fields: {', '.join(known)})"
        )
    return field


def check_readable(message: type[Message], name: str, dtype: Any) -> None:
    """Refuse a column that can't be read from the field of its name.

    Raises:
        ValueError: with what fits.
    """
    field = field_of(message, name)
    element = _element(field, instance(dtype))
    if element is None or not _reads(field, element):
        raise ValueError(f"{_described(field)} can't be read as {dtype}; use {_readable_as(field)}")


def check_writable(message: type[Message], name: str, dtype: Any) -> None:
    """Refuse a column that can't be written to the field of its name.

    Raises:
        ValueError: with the remedy.
    """
    field = field_of(message, name)
    element = _element(field, instance(dtype))
    if element is None or not _writes(field, element):
        raise ValueError(f"{dtype} can't be written to {_described(field)}: cast it, or give the message another field")


def getter(message: type[Message], name: str, dtype: Any) -> Callable[[Message], Any]:
    """How a column's value is taken from a message: unset fields give their default, and null if they have none."""
    field = field_of(message, name)
    enum = field.enum_type if instance(dtype) in (pl.String(), pl.List(pl.String())) else None
    if field.is_repeated:
        if enum is None:
            return lambda found: list(getattr(found, name))
        return lambda found: [_symbol(enum, number) for number in getattr(found, name)]
    optional = field.has_presence and not field.has_default_value

    def get(found: Message) -> Any:
        if optional and not found.HasField(name):
            return None
        value = getattr(found, name)
        return value if enum is None else _symbol(enum, value)

    return get


def required(message: type[Message]) -> list[str]:
    """Fields without which a message can't be written."""
    return [field.name for field in _descriptor(message).fields if field.is_required]


def _descriptor(message: type[Message]) -> Descriptor:
    return cast(Descriptor, message.DESCRIPTOR)  # of one of two classes with the same members


def _symbol(enum: EnumDescriptor, number: int) -> str:
    """Name of an enum's value; its number where this version of the message does not know it."""
    found = enum.values_by_number.get(number)
    return str(number) if found is None else found.name


def _element(field: FieldDescriptor, dtype: Any) -> Any | None:
    """Type of a single value; None: only one of field and column has many."""
    if field.is_repeated:
        return instance(dtype.inner) if isinstance(dtype, pl.List) else None
    return None if isinstance(dtype, pl.List) else dtype


def _reads(field: FieldDescriptor, dtype: Any) -> bool:
    if field.type in _FIELD_RANGES:
        return _within(_FIELD_RANGES[field.type], _COLUMN_RANGES.get(type(dtype)))
    return type(dtype) in _READ_AS.get(field.type, ())


def _writes(field: FieldDescriptor, dtype: Any) -> bool:
    if type(dtype) in _COLUMN_RANGES:
        return _within(_COLUMN_RANGES[type(dtype)], _FIELD_RANGES.get(field.type))
    return field.type in _WRITTEN_AS.get(type(dtype), ())


def _within(inner: tuple[int, int], outer: tuple[int, int] | None) -> bool:
    return outer is not None and outer[0] <= inner[0] and inner[1] <= outer[1]


def _described(field: FieldDescriptor) -> str:
    return f"the field {'repeated ' if field.is_repeated else ''}{_TYPE_NAMES[field.type]} {field.full_name}"


def _readable_as(field: FieldDescriptor) -> str:
    """Column types for a field, in words."""
    known = (*_COLUMN_RANGES, pl.Float32, pl.Float64, pl.Boolean, pl.String, pl.Binary)
    names = [kind.__name__ for kind in known if _reads(field, kind())]
    if not names:
        return "only fields that are scalars, enums, or repeated ones"
    return " or ".join(f"List({name})" if field.is_repeated else name for name in names)
