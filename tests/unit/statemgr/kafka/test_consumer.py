"""The real client without a broker: what it refuses by itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from statemgr.errors import KafkaUnavailableError
from statemgr.kafka.confluent import ConfluentKafka
from statemgr.kafka.consumer import ConfluentConsumer
from statemgr.types import TopicPartition

pytestmark = pytest.mark.slow

NOWHERE = "127.0.0.1:1"
AT = TopicPartition("t", 0)
NO_OFFSET = -77


@pytest.fixture
def consumer() -> Iterator[ConfluentConsumer]:
    consumer = ConfluentKafka(NOWHERE).consumer(name="reader")
    yield consumer
    consumer.close()


@pytest.mark.parametrize("call", ["assign", "add"])
def test_an_assignment_that_the_client_refuses_is_named(consumer: ConfluentConsumer, call: str) -> None:
    with pytest.raises(KafkaUnavailableError, match=rf"assigning t\[0\]: refused by Kafka at {NOWHERE}: _INVALID_ARG"):
        getattr(consumer, call)({AT: NO_OFFSET})


@pytest.mark.parametrize("call", ["pause", "remove"])
def test_a_release_that_the_client_refuses_is_named(consumer: ConfluentConsumer, call: str) -> None:
    consumer.assign({AT: 0})
    consumer._client.assign([])  # the client lost its assignment by itself
    with pytest.raises(KafkaUnavailableError, match=r"releasing t\[0\]: .*_INVALID_ARG"):
        getattr(consumer, call)([AT])


def test_position_and_reading_without_a_broker_are_answered(consumer: ConfluentConsumer) -> None:
    consumer.assign({AT: 5})
    assert consumer.position(AT) == 5
    assert not consumer.consume(10, 0.0)
