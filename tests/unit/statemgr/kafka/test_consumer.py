"""The real client without a broker: what it refuses by itself."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from statemgr.errors import KafkaUnavailableError
from statemgr.kafka.confluent import ConfluentKafka
from statemgr.kafka.consumer import ConfluentConsumer
from statemgr.kafka.reading import MessageReader
from statemgr.types import TopicPartition
from towpath_native import WHY_NOT

pytestmark = pytest.mark.slow

NOWHERE = "127.0.0.1:1"
AT = TopicPartition("t", 0)
NO_OFFSET = -77


@pytest.fixture(params=[False, True], ids=["objects", "columns"])
def consumer(request: pytest.FixtureRequest) -> Iterator[ConfluentConsumer]:
    consumer = ConfluentKafka(NOWHERE).consumer(name="reader", columns=request.param)
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


def test_a_broker_that_is_away_is_noted(consumer: ConfluentConsumer) -> None:
    consumer.assign({AT: 5})
    deadline_s = time.monotonic() + 10
    while not consumer.notes and time.monotonic() < deadline_s:
        assert not consumer.consume(10, 0.05)
    assert consumer.notes.keys() & {"_TRANSPORT", "_ALL_BROKERS_DOWN"}


@pytest.mark.parametrize(
    ("settings", "polled"),
    [({}, False), ({"sasl.mechanism": "OAUTHBEARER", "security.protocol": "SASL_PLAINTEXT"}, True)],
)
def test_a_client_that_fetches_tokens_while_it_is_polled_is_polled(settings: dict[str, str], polled: bool) -> None:
    consumer = ConfluentKafka(NOWHERE, settings).consumer(name="reader", columns=True)
    try:
        assert isinstance(consumer._reader, MessageReader) is (polled or WHY_NOT is not None)
    finally:
        consumer.close()
