"""A query from Avro to Avro as processes, while they are killed and the registry is away."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient, topic_subject_name_strategy
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from statemgr.kafka.confluent import ConfluentKafka
from tests.harness.deployment import Deployment, deployed
from tests.harness.schema_registry import SchemaRegistry
from tests.harness.topics import read_topic
from tests.harness.waiting import wait_for
from towpath.broker import LocalBroker

pytestmark = pytest.mark.slow

PARTITIONS = 4
CUSTOMERS = 20
ORDERS = 2_000
LIMIT_S = 60.0
CONF = {"subject.name.strategy": topic_subject_name_strategy}

MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
PLACED = {"name": "placed", "type": {"type": "long", "logicalType": "timestamp-millis"}}
CUSTOMER = {"name": "customer", "type": "string"}
AMOUNT = {"name": "amount", "type": ["null", MONEY], "default": None}
FIRST = {"type": "record", "name": "Order", "namespace": "shop", "fields": [CUSTOMER, AMOUNT, PLACED]}
SECOND = {
    **FIRST,
    "fields": [{"name": "note", "type": "string"}, PLACED, AMOUNT, CUSTOMER, {"name": "priority", "type": "int"}],
}


THIRD = {**SECOND, "fields": [*SECOND["fields"], {"name": "channel", "type": "string"}]}


class Shop:
    """Places orders, under one schema or another."""

    def __init__(self, broker: LocalBroker, service: SchemaRegistry, topic: str) -> None:
        self._client = SchemaRegistryClient({"url": service.url})
        self._producer = ConfluentKafka(broker.bootstrap).producer(transactional_id=None, name="shop")
        self._context = SerializationContext(topic, MessageField.VALUE)
        self._dice = random.Random(1)
        self.expected: dict[str, int] = defaultdict(int)

    def make(self, number: int, schema: dict[str, Any]) -> list[bytes]:
        """Orders that are not placed yet; their schema is registered."""
        serialize = AvroSerializer(self._client, json.dumps(schema), conf=CONF)
        return [serialize(self._order(schema), self._context) or b"" for _ in range(number)]

    def place(self, orders: list[bytes]) -> None:
        for value in orders:
            self._producer.produce(self._context.topic, self._dice.randrange(PARTITIONS), None, value)
        self._producer.flush(30.0)

    def _order(self, schema: dict[str, Any]) -> dict[str, Any]:
        """One order, of which the result is noted."""
        customer, priority = f"c{self._dice.randrange(CUSTOMERS)}", self._dice.choice([5, 1])
        amount = self._dice.choice([None, Decimal("-1.00"), Decimal("12.34")])
        counts = amount is not None and amount > 0 and (schema is FIRST or priority == 5)
        self.expected[customer] += counts
        row = {"customer": customer, "amount": amount, "placed": datetime.now(UTC)}
        more = {"note": "n", "priority": priority, "channel": "web"}
        return {**row, **{field["name"]: more[field["name"]] for field in schema["fields"] if field["name"] in more}}


def counted(bootstrap: str, service: SchemaRegistry, topic: str) -> dict[str, list[int]]:
    """Customer → its counts as a reader of the topic sees them, by Confluent's own deserialiser."""
    deserialize = AvroDeserializer(SchemaRegistryClient({"url": service.url}), conf=CONF)
    context = SerializationContext(topic, MessageField.VALUE)
    found: dict[str, list[int]] = defaultdict(list)
    for record in read_topic(bootstrap, topic):
        row = deserialize(record.value(), context)
        assert record.key() == row["customer"].encode()
        assert row["sched_ms"] > 0
        found[row["customer"]].append(row["count"])
    return found


def test_counts_from_avro_to_avro_are_those_of_an_undisturbed_run(
    broker: LocalBroker, unique_name: Any, tmp_path: Any
) -> None:
    app = unique_name("orders")
    with SchemaRegistry() as service:
        deployment = Deployment(
            "tests.harness.orders",
            broker.bootstrap,
            tmp_path / "run",
            settings={"app": app},
            options=["--option", f"schema_registry_url={service.url}"],
            source_partitions=PARTITIONS,
        )
        with deployed(deployment):
            shop = Shop(broker, service, deployment.source)
            deployment.await_running()
            shop.place(shop.make(ORDERS, FIRST))
            for name in deployment.replicas:
                deployment[name].kill()
                deployment[name].start()
            deployment.await_running()
            newer = shop.make(ORDERS, SECOND)
            newest = shop.make(ORDERS, THIRD)
            service.answer = (503, {"error_code": 50301, "message": "not now"})
            source = deployment["source-0"]
            shop.place(newer)
            wait_for(
                "records wait for their schema", lambda: "can't be asked" in source.log(), LIMIT_S, source.describe
            )
            source.kill()
            source.start()
            wait_for("the start waits, too", lambda: "not now" in source.log(), LIMIT_S, source.describe)
            service.answer = None
            deployment.await_running()
            shop.place(newest)
            deployment["count-0"].kill()
            deployment["count-0"].start()
            deployment.drain()
            deployment.stop()
        expected = {customer: list(range(1, count + 1)) for customer, count in shop.expected.items() if count}
        assert counted(broker.bootstrap, service, f"{app}-counts") == expected
        assert list(read_topic(broker.bootstrap, f"{app}.dead-letter")) == []
        assert service.versions.keys() == {f"{deployment.source}-value", f"{app}-counts-value"}
