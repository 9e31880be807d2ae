"""Frame → Protobuf records of a sink, by Confluent's serialiser."""

from __future__ import annotations

import polars as pl
from confluent_kafka.schema_registry import topic_subject_name_strategy
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.message import EncodeError

from towpath.formats.declared import Protobuf
from towpath.formats.registry import Registry
from towpath.formats.rows import rows_of
from towpath.operators.codec import Encoded, Refused
from towpath.query.plan import OutputPlan


class ProtobufEncoder:
    """Encodes the rows of one sink; a null is a field that is not set."""

    def __init__(self, output: OutputPlan, registry: Registry, *, register: bool) -> None:
        """``register``: whether the schema is registered, or must be there already."""
        if not isinstance(output.declared, Protobuf):
            raise TypeError(f"the plan of {output.topic} names no message")
        self._message = output.declared.message
        conf = {"auto.register.schemas": register, "subject.name.strategy": topic_subject_name_strategy}
        self._serialize = ProtobufSerializer(self._message, registry.client, conf=conf)
        self._context = SerializationContext(output.topic, MessageField.VALUE)
        self._fields = output.fields
        self._registry = registry
        self._register = register

    def prepare(self) -> None:
        """See :class:`towpath.operators.codec.RecordEncoder`."""
        subject = topic_subject_name_strategy(self._context, None) or ""
        self._registry.publish(subject, self._write_blank, register=self._register)

    def encode(self, frame: pl.DataFrame) -> Encoded:
        """See :class:`towpath.operators.codec.RecordEncoder`."""
        values: list[bytes | None] = []
        refused: list[Refused] = []
        for index, row in enumerate(rows_of(frame, self._fields)):
            try:
                message = self._message(**{field: value for field, value in row.items() if value is not None})
                values.append(self._serialize(message, self._context))
            except (ValueError, TypeError, EncodeError) as error:
                refused.append(Refused(index, str(error)))
        return Encoded(values, refused)

    def _write_blank(self) -> None:
        try:
            self._serialize(self._message(), self._context)
        except EncodeError:  # a field is required; the schema was made known before
            return
