"""Protobuf records → frame, by the message type that the query names.

Fields are matched by number, as always in Protobuf: those that the query's type does not know are skipped, missing ones
have their default. What the registry tells is which type a record has.
"""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, _str_to_proto
from confluent_kafka.schema_registry.serde import SchemaId
from confluent_kafka.serialization import SerializationError
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.message import Message

from towpath.formats.declared import Protobuf
from towpath.formats.framing import NotReadableError, schema_id_of
from towpath.formats.proto_fields import getter
from towpath.formats.registry import Registry
from towpath.formats.rows import RowDecoder, frames_of
from towpath.query.plan import InputPlan

_PROTOBUF = "PROTOBUF"


class ProtobufDecoder(RowDecoder):
    """Decodes batches of one topic."""

    def __init__(self, source: InputPlan, registry: Registry) -> None:
        """``source``: an input in Protobuf; ``registry``: where its schemas are."""
        if not isinstance(source.declared, Protobuf):
            raise TypeError(f"the plan of {source.topic} names no message")
        message = source.declared.message
        super().__init__(frames_of(source, lambda field, dtype: getter(message, field, dtype)))
        self._expected = message.DESCRIPTOR.full_name
        # Without a registry of its own: a message is parsed by its own type, and the registry was asked already.
        self._deserialize = ProtobufDeserializer(message)
        self._registry = registry
        self._files: dict[int, FileDescriptorProto | None] = {}
        self._fits: set[tuple[int, tuple[int, ...]]] = set()

    def _row(self, value: bytes | None) -> Message:
        schema_id = schema_id_of(value)
        if schema_id not in self._files:
            self._files[schema_id] = self._file(schema_id)
        try:
            header = SchemaId(_PROTOBUF)
            header.from_bytes(BytesIO(value or b""))
        except (SerializationError, EOFError, ValueError) as error:
            raise NotReadableError(f"the record does not say which message of schema {schema_id} it is") from error
        at = (schema_id, tuple(header.message_indexes or ()))
        if at not in self._fits:
            self._check(*at)
            self._fits.add(at)
        try:
            found: Message = self._deserialize(value)
        except (SerializationError, ValueError) as error:
            raise NotReadableError(f"not a message of schema {schema_id}: {error}") from error
        return found

    def _file(self, schema_id: int) -> FileDescriptorProto | None:
        """The file of a schema; None from a registry that gives text alone: records are then what their topic says."""
        schema = self._registry.schema(schema_id, "serialized")
        if schema.schema_type != _PROTOBUF:
            raise NotReadableError(f"schema {schema_id} is {schema.schema_type}, not {_PROTOBUF}")
        try:
            return _str_to_proto("schema", schema.schema_str or "")
        except (SerializationError, ValueError):
            return None

    def _check(self, schema_id: int, path: tuple[int, ...]) -> None:
        """Refuse records of another message."""
        file = self._files[schema_id]
        if file is None:
            return
        name = _message_name(file, path)
        if name is None:
            raise NotReadableError(f"schema {schema_id} has no message {list(path)}")
        if name != self._expected:
            raise NotReadableError(f"the record is a {name}, and the query reads {self._expected}")


def _message_name(file: FileDescriptorProto, path: Sequence[int]) -> str | None:
    """Full name of the message at a path of indices; None: there is none."""
    names = [file.package] if file.package else []
    level: Sequence[DescriptorProto] = file.message_type
    for index in path:
        if not 0 <= index < len(level):
            return None
        names.append(level[index].name)
        level = level[index].nested_type
    return ".".join(names) if path else None
