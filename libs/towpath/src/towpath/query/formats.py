"""Formats of sources and sinks: how a query says them, and what fits them, checked as soon as it is said."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from towpath.formats.avro_types import check_name, check_readable, check_record_name, record_name, record_schema
from towpath.formats.declared import Avro, Declared, Protobuf
from towpath.operators.json_decode import python_type
from towpath.query.errors import ColumnTypeError, QueryError, UnknownColumnError, nearest
from towpath.query.plan import Format

RecordFormat = str | Avro | Protobuf
"""What ``format=…`` takes: ``"json"``, ``"avro"``, or what :func:`avro` and :func:`protobuf` give."""


def avro(*, record: str | None = None, defaults: Mapping[str, Any] | None = None) -> Avro:
    """Avro, with the writer's schema in a registry.

    Args:
        record: full name of a sink's record, such as ``shop.Total``; by default the topic's name, with ``_`` for what
            no name can have.
        defaults: field → value that a source's rows get from records whose schema lacks the field; null for others.

    Raises:
        QueryError: ``record`` is no name.
    """
    try:
        if record is not None:
            check_record_name(record)
    except ValueError as error:
        raise QueryError(f"avro(…): {error}") from error
    return Avro(record, dict(defaults or {}))


def protobuf(message: str, *, descriptors: str | Path | None = None) -> Protobuf:
    """Protobuf messages of one type, with the writer's schema in a registry.

    Args:
        message: ``package.module_pb2:Message`` of code that ``protoc`` has generated; or with ``descriptors`` the
            message's full name, such as ``shop.Order``.
        descriptors: file that ``protoc --include_imports --descriptor_set_out=…`` has made.

    Raises:
        QueryError: there is no such message.
    """
    try:
        from towpath.formats.messages import message_class  # only such queries load Protobuf

        return Protobuf(message_class(message, descriptors))
    except ValueError as error:
        raise QueryError(f"protobuf({message!r}): {error}") from error


def declared(format: RecordFormat, place: str) -> Declared | None:  # noqa: A002 - as in the query
    """What was said of records with a schema in a registry; None: they are JSON.

    Raises:
        QueryError: there is no such format; names the nearest.
    """
    match format:
        case Avro() | Protobuf():
            return format
        case Format.JSON:
            return None
        case Format.AVRO:
            return Avro()
        case Format.PROTOBUF:
            raise QueryError(f"{place}: say which message: format=protobuf('package.module_pb2:Message')")
        case _:
            known = [str(Format.JSON), str(Format.AVRO), str(Format.PROTOBUF)]
            hint = nearest(str(format), known)
            raise QueryError(f"{place}: format={format!r}, but it is one of {', '.join(known)}{hint}")


def format_of(said: Declared | None) -> Format:
    """The format of a topic of which this was said."""
    match said:
        case None:
            return Format.JSON
        case Avro():
            return Format.AVRO
        case Protobuf():
            return Format.PROTOBUF


def check_source(said: Declared | None, fields: Mapping[str, Any], emit_time: str | None, place: str) -> None:
    """Check the fields of a source.

    Args:
        said: of its format.
        fields: field → Polars type, without the emit time.
        emit_time: field of the emit time.
        place: what messages call the source.

    Raises:
        ColumnTypeError: no value of the format has the column's type.
        QueryError: a default or a name does not fit.
    """
    all_fields = {**fields, **({emit_time: pl.Int64()} if emit_time is not None and said is not None else {})}
    for name, dtype in all_fields.items():
        try:
            match said:
                case None:
                    python_type(dtype)
                case Avro():
                    check_name(name)
                    check_readable(dtype)
                case Protobuf():
                    _check_message_field(said, name, dtype)
        except ValueError as error:
            raise ColumnTypeError(f"{place}, field {name!r}: {error}") from error
    if isinstance(said, Avro):
        _check_defaults(said.defaults, all_fields, place)
        if said.record is not None:
            raise QueryError(f"{place}: record={said.record!r} is for sinks; a source reads records of any name")


def check_sink(
    said: Declared | None, topic: str, fields: Mapping[str, Any], added: Collection[str], place: str
) -> dict[str, Any]:
    """Check the columns of a sink, and give the fields of its records; none for JSON.

    Args:
        said: of its format.
        topic: of the sink.
        fields: field → Polars type.
        added: those of them that every sink adds, and that are no columns of the user's.
        place: what messages call the sink.

    Raises:
        QueryError: a column can't be written.
    """
    try:
        match said:
            case None:
                return {}
            case Avro():
                return _record_fields(said, topic, fields)
            case Protobuf():
                return _message_fields(said, fields, added)
    except ValueError as error:
        raise QueryError(f"{place}: {error}") from error


def _check_message_field(said: Protobuf, name: str, dtype: Any) -> None:
    from towpath.formats.proto_fields import check_readable as check_field

    check_field(said.message, name, dtype)


def _record_fields(said: Avro, topic: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    if said.defaults:
        raise ValueError("defaults are for sources; a sink's columns are all there")
    record_schema(said.record or record_name(topic), fields)
    return dict(fields)


def _message_fields(said: Protobuf, fields: Mapping[str, Any], added: Collection[str]) -> dict[str, Any]:
    """Fields of a message that a sink writes: of what every sink adds, only what the message has."""
    from towpath.formats.proto_fields import check_writable, required

    message = said.message
    known = message.DESCRIPTOR.fields_by_name
    written = {name: dtype for name, dtype in fields.items() if name in known or name not in added}
    for name, dtype in written.items():
        try:
            check_writable(message, name, dtype)
        except ValueError as error:
            raise ValueError(f"column {name!r}: {error}") from error
    missing = [name for name in required(message) if name not in written]
    if missing:
        raise ValueError(
            f"message {message.DESCRIPTOR.full_name} requires {', '.join(missing)}, and the rows have no such column"
        )
    return written


def _check_defaults(defaults: Mapping[str, Any], fields: Mapping[str, Any], place: str) -> None:
    for name, value in defaults.items():
        if name not in fields:
            raise UnknownColumnError(f"{place}, defaults: unknown field {name!r}{_known(name, fields)}")
        try:
            pl.Series([value], dtype=fields[name], strict=True)
        except (pl.exceptions.PolarsError, TypeError, ValueError, OverflowError) as error:
            raise ColumnTypeError(f"{place}, defaults: {name!r} is {value!r}, which is no {fields[name]}") from error


def _known(name: str, fields: Iterable[str]) -> str:
    names = list(fields)
    return f"{nearest(name, names)} (fields: {', '.join(names)})"
