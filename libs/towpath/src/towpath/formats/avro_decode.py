"""Avro records → frame, by the schema that each was written with.

The first record of a schema fetches it, and makes a reader of it: Confluent's deserialiser with a reader's schema that
has the query's fields alone (:mod:`towpath.formats.avro_view`), so that other fields are skipped, not decoded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any

from confluent_kafka.schema_registry import RegisteredSchema, Schema, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer, _resolve_named_schema, parse_schema_with_repo
from confluent_kafka.serialization import MessageField, SerializationContext
from fastavro.schema import expand_schema

from towpath.errors import RegistryUnavailableError
from towpath.formats.avro_view import view_of, without_logical_types
from towpath.formats.declared import Avro
from towpath.formats.framing import NotReadableError, schema_id_of
from towpath.formats.registry import Registry
from towpath.formats.rows import RowDecoder, fields_of, frames_of
from towpath.query.plan import InputPlan

_AVRO = "AVRO"

Row = Mapping[str, Any]


class AvroDecoder(RowDecoder):
    """Decodes batches of one topic."""

    def __init__(self, source: InputPlan, registry: Registry) -> None:
        """``source``: an input in Avro; ``registry``: where its schemas are."""
        super().__init__(frames_of(source, lambda field, _dtype: itemgetter(field)))
        self._types = fields_of(source)
        self._defaults = source.declared.defaults if isinstance(source.declared, Avro) else {}
        self._context = SerializationContext(source.topic, MessageField.VALUE)
        self._schemas = _WriterSchemas(registry)
        self._readers: dict[int, Callable[[bytes], Row]] = {}

    def _row(self, value: bytes | None) -> Row:
        schema_id = schema_id_of(value)
        reader = self._readers.get(schema_id)
        if reader is None:
            reader = self._readers[schema_id] = self._reader(schema_id)
        return reader(value or b"")

    def _reader(self, schema_id: int) -> Callable[[bytes], Row]:
        """What reads records of a schema."""
        schema = self._schemas.get_schema(schema_id)
        if schema.schema_type != _AVRO:
            return _refusal(f"schema {schema_id} is {schema.schema_type}, not {_AVRO}")
        try:
            named: Any = _resolve_named_schema(schema, self._schemas)  # type: ignore[arg-type]  # asked in the same way
            view = view_of(expand_schema(parse_schema_with_repo(schema.schema_str or "", named)), self._types)
            deserialize = AvroDeserializer(
                self._schemas, view.schema, conf={"subject.name.strategy": topic_subject_name_strategy}
            )
        except RegistryUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - a schema may be anything
            return _refusal(f"schema {schema_id}: {error}")
        absent = {field: self._defaults.get(field) for field in view.absent}

        def read(value: bytes) -> Row:
            try:
                found = deserialize(value, self._context)
            except Exception as error:  # bytes may be anything
                kind = type(error).__name__
                raise NotReadableError(f"not a record of schema {schema_id}: {kind}: {error}") from error
            return {**found, **absent}

        return read


def _refusal(reason: str) -> Callable[[bytes], Row]:
    """Reads nothing: no record of the schema can be a row."""

    def refuse(_value: bytes) -> Row:
        raise NotReadableError(reason)

    return refuse


class _WriterSchemas:
    """A registry as Confluent's deserialiser asks it, each question put once.

    Logical types other than decimals are taken off, so that times stay the numbers that they are written as.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._schemas: dict[int, Schema] = {}
        self._versions: dict[tuple[str, int], RegisteredSchema] = {}

    def config(self) -> dict[str, Any]:
        """Nothing: rules of schemas are configured elsewhere."""
        return {}

    def get_schema(
        self,
        schema_id: int,
        subject_name: str | None = None,  # noqa: ARG002
        fmt: str | None = None,  # noqa: ARG002
        reference_format: str | None = None,  # noqa: ARG002
    ) -> Schema:
        """The schema of an id."""
        if schema_id not in self._schemas:
            self._schemas[schema_id] = _plain(self._registry.schema(schema_id))
        return self._schemas[schema_id]

    def get_version(
        self,
        subject_name: str,
        version: int,
        deleted: bool = False,  # noqa: ARG002
        fmt: str | None = None,  # noqa: ARG002
    ) -> RegisteredSchema:
        """A version of a subject's schema."""
        at = (subject_name, version)
        if at not in self._versions:
            found = self._registry.version(subject_name, version)
            self._versions[at] = RegisteredSchema(
                schema_id=found.schema_id,
                guid=found.guid,
                schema=_plain(found.schema),
                subject=found.subject,
                version=found.version,
            )
        return self._versions[at]


def _plain(schema: Schema) -> Schema:
    if schema.schema_type != _AVRO or schema.schema_str is None:
        return schema
    try:
        text = json.dumps(without_logical_types(json.loads(schema.schema_str)))
    except (ValueError, TypeError, KeyError, RecursionError):
        return schema  # whoever parses it says what is wrong
    return Schema(text, schema.schema_type, schema.references, schema.metadata, schema.rule_set)
