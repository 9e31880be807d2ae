"""Questions to the cluster: what is no answer is asked again."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError

from statemgr.errors import KafkaRefusedError, KafkaUnavailableError
from statemgr.kafka.ports import Bounds
from statemgr.kafka.requests import Requests, unavailable
from statemgr.types import TopicPartition

PARTITION = TopicPartition("log", 0)
NOWHERE = "127.0.0.1:1"
NO_OFFSET = -1001


class Answer:
    def __init__(self, offset):
        self.offset = offset


class Client:
    """Answers ``list_offsets`` with the given offsets, the last one for ever; the topic exists."""

    def __init__(self, offsets, on_error):
        self._offsets = list(offsets)
        self.errors = []
        self.on_error = on_error

    def list_offsets(self, asked, **_):
        offset = self._offsets.pop(0) if len(self._offsets) > 1 else self._offsets[0]
        future = Future()
        future.set_result(Answer(offset))
        return dict.fromkeys(asked, future)

    def poll(self, _):
        while self.errors:
            self.on_error(self.errors.pop())
        return 0

    def list_topics(self, *_, **__):
        return SimpleNamespace(topics={"log": SimpleNamespace(error=None, partitions={0: None})})


def requests_to(offsets):
    requests = Requests({"bootstrap.servers": NOWHERE}, NOWHERE)
    requests.client = Client(offsets, requests._on_error)
    return requests


@pytest.mark.parametrize("first", [(NO_OFFSET, NO_OFFSET), (0, NO_OFFSET), (NO_OFFSET, 7)])
def test_an_answer_without_offsets_is_no_empty_log_but_asked_for_again(first):
    assert requests_to([*first, 3, 7]).bounds(PARTITION, 5.0) == Bounds(3, 7)


def test_without_offsets_before_the_deadline_the_bounds_are_unknown():
    with pytest.raises(KafkaUnavailableError, match="no offsets in the answer"):
        requests_to([NO_OFFSET]).bounds(PARTITION, 0.1)


def turned_away(requests):
    """A broker refuses to talk to the client, which it says beside all requests."""
    requests.client.errors.append(KafkaError(KafkaError._AUTHENTICATION, "invalid credentials"))


def test_a_client_that_is_turned_away_is_told_so():
    requests = requests_to([NO_OFFSET])
    turned_away(requests)
    with pytest.raises(KafkaRefusedError, match="invalid credentials"):
        requests.bounds(PARTITION, 0.1)


def test_a_client_that_was_let_in_again_is_not_said_to_be_turned_away():
    requests = requests_to([NO_OFFSET])
    turned_away(requests)
    with pytest.raises(KafkaRefusedError):
        requests.bounds(PARTITION, 0.1)
    assert requests.repeat("asking", 1.0, lambda _: "answer") == "answer"
    with pytest.raises(KafkaUnavailableError, match="no offsets in the answer"):
        requests.bounds(PARTITION, 0.1)


def test_an_address_that_does_not_answer_is_to_be_checked():
    error = unavailable("connecting", 2.0, NOWHERE, TimeoutError())
    assert "no answer from Kafka at 127.0.0.1:1 within 2 s (TimeoutError); check that a broker runs there" in str(error)


def test_a_name_that_does_not_resolve_is_the_cause_of_no_answer(monkeypatch):
    monkeypatch.setattr("statemgr.kafka.requests.unresolved", lambda _: {"nosuchhost": "Name or service not known"})
    error = unavailable("connecting", 2.0, "127.0.0.1:1,nosuchhost:9092", TimeoutError())
    assert "the name nosuchhost does not resolve (Name or service not known): correct the address" in str(error)
