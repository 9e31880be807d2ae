"""Questions to the cluster: what is no answer is asked again."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from statemgr.errors import KafkaUnavailableError
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

    def __init__(self, offsets):
        self._offsets = list(offsets)

    def list_offsets(self, asked, **_):
        offset = self._offsets.pop(0) if len(self._offsets) > 1 else self._offsets[0]
        future = Future()
        future.set_result(Answer(offset))
        return dict.fromkeys(asked, future)

    def poll(self, _):
        return 0

    def list_topics(self, *_, **__):
        return SimpleNamespace(topics={"log": SimpleNamespace(error=None, partitions={0: None})})


def requests_to(offsets):
    requests = Requests({"bootstrap.servers": NOWHERE}, NOWHERE)
    requests.client = Client(offsets)
    return requests


@pytest.mark.parametrize("first", [(NO_OFFSET, NO_OFFSET), (0, NO_OFFSET), (NO_OFFSET, 7)])
def test_an_answer_without_offsets_is_no_empty_log_but_asked_for_again(first):
    assert requests_to([*first, 3, 7]).bounds(PARTITION, 5.0) == Bounds(3, 7)


def test_without_offsets_before_the_deadline_the_bounds_are_unknown():
    with pytest.raises(KafkaUnavailableError, match="no offsets in the answer"):
        requests_to([NO_OFFSET]).bounds(PARTITION, 0.1)


def test_an_address_that_does_not_answer_is_to_be_checked():
    error = unavailable("connecting", 2.0, NOWHERE, TimeoutError())
    assert "no answer from Kafka at 127.0.0.1:1 within 2 s (TimeoutError); check that a broker runs there" in str(error)


def test_a_name_that_does_not_resolve_is_the_cause_of_no_answer(monkeypatch):
    monkeypatch.setattr("statemgr.kafka.requests.unresolved", lambda _: {"nosuchhost": "Name or service not known"})
    error = unavailable("connecting", 2.0, "127.0.0.1:1,nosuchhost:9092", TimeoutError())
    assert "the name nosuchhost does not resolve (Name or service not known): correct the address" in str(error)
