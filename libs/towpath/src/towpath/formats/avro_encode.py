"""Frame → Avro records of a sink, by Confluent's serialiser."""

from __future__ import annotations

import polars as pl
from confluent_kafka.schema_registry import topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from towpath.formats.avro_types import record_name, record_schema
from towpath.formats.declared import Avro
from towpath.formats.registry import Registry
from towpath.formats.rows import rows_of
from towpath.operators.codec import Encoded, Refused
from towpath.query.plan import OutputPlan


class AvroEncoder:
    """Encodes the rows of one sink."""

    def __init__(self, output: OutputPlan, registry: Registry, *, register: bool) -> None:
        """``register``: whether the schema is registered, or must be there already."""
        declared = output.declared
        name = declared.record if isinstance(declared, Avro) else None
        schema = record_schema(name or record_name(output.topic), output.fields)
        conf = {"auto.register.schemas": register, "subject.name.strategy": topic_subject_name_strategy}
        self._serialize = AvroSerializer(registry.client, schema, conf=conf)
        self._context = SerializationContext(output.topic, MessageField.VALUE)
        self._fields = output.fields
        self._registry = registry
        self._register = register

    def prepare(self) -> None:
        """See :class:`towpath.operators.codec.RecordEncoder`."""
        subject = topic_subject_name_strategy(self._context, None) or ""
        blank = dict.fromkeys(self._fields)
        self._registry.publish(subject, lambda: self._serialize(blank, self._context), register=self._register)

    def encode(self, frame: pl.DataFrame) -> Encoded:
        """See :class:`towpath.operators.codec.RecordEncoder`."""
        values: list[bytes | None] = []
        refused: list[Refused] = []
        for index, row in enumerate(rows_of(frame, self._fields)):
            try:
                values.append(self._serialize(row, self._context))
            except (ValueError, TypeError, OverflowError) as error:
                refused.append(Refused(index, str(error)))
        return Encoded(values, refused)
