"""Records as other programs write them, and a registry as a stage asks it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import polars as pl
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from statemgr.testing.kafka import ManualClock
from tests.harness.schema_registry import SchemaRegistry
from towpath.formats.avro_decode import AvroDecoder
from towpath.formats.declared import Avro
from towpath.formats.registry import Registry
from towpath.operators.decoded import Decoded
from towpath.query.plan import Format, InputPlan

TOPIC = "orders"
CONTEXT = SerializationContext(TOPIC, MessageField.VALUE)
STRATEGY = {"subject.name.strategy": topic_subject_name_strategy}


def client_of(service: SchemaRegistry) -> SchemaRegistryClient:
    return SchemaRegistryClient({"url": service.url, "timeout": 3.0, "max.retries": 0})


def registry_of(service: SchemaRegistry, clock: ManualClock | None = None) -> Registry:
    return Registry(client_of(service), service.url, clock or ManualClock())


_SHARED: dict[SchemaRegistry, Registry] = {}


def shared_registry(service: SchemaRegistry) -> Registry:
    """One for all that need no registry of their own: making a client takes tens of milliseconds, for TLS."""
    if service not in _SHARED:
        _SHARED[service] = registry_of(service)
    return _SHARED[service]


def record(fields: Mapping[str, Any], name: str = "shop.Order") -> dict[str, Any]:
    """An Avro record schema; ``fields``: name → type."""
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": field, "type": kind} for field, kind in fields.items()],
    }


def written(
    service: SchemaRegistry, schema: Mapping[str, Any], *rows: Mapping[str, Any], references: Any = ()
) -> list[bytes]:
    """Records by Confluent's own serialiser, under a schema that it registers."""
    declared = Schema(json.dumps(schema), "AVRO", list(references))
    serialize = AvroSerializer(shared_registry(service).client, declared, conf=STRATEGY)
    return [serialize(dict(row), CONTEXT) or b"" for row in rows]


def read_back(service: SchemaRegistry, values: list[bytes | None], topic: str = TOPIC) -> list[Any]:
    """Values by Confluent's own deserialiser."""
    deserialize = AvroDeserializer(shared_registry(service).client, conf=STRATEGY)
    return [deserialize(value, SerializationContext(topic, MessageField.VALUE)) for value in values]


def decoder(registry: Registry, schema: Mapping[str, Any], avro: Avro | None = None, **more: Any) -> AvroDecoder:
    return AvroDecoder(InputPlan(TOPIC, Format.AVRO, schema, declared=avro or Avro(), **more), registry)


def decoded(
    service: SchemaRegistry,
    values: list[bytes | None],
    schema: Mapping[str, Any],
    avro: Avro | None = None,
    **more: Any,
) -> Decoded:
    """What a source of this schema makes of records."""
    return decoder(shared_registry(service), schema, avro, **more).decode(values)


def only(result: Decoded) -> Any:
    """The value of the one column of the one row."""
    assert [bad.reason for bad in result.bad] == []
    value = result.frame.item()
    return value.to_list() if isinstance(value, pl.Series) else value
