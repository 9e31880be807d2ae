"""A fence by several instances, within one deadline (R17)."""

from __future__ import annotations

import pytest

from statemgr.errors import ProducerLostError, RetryableKafkaError
from statemgr.testing.kafka import FakeKafka
from towpath.coordinator.errors import FenceError
from towpath.coordinator.fencer import STEPS_S, Fencer


@pytest.fixture
def kafka() -> FakeKafka:
    return FakeKafka()


def fencer(kafka: FakeKafka) -> Fencer:
    return Fencer(kafka, "kc", "fence", kafka.clock.monotonic_s)


def test_a_fenced_replica_can_begin_nothing_that_commits(kafka: FakeKafka) -> None:
    owner = kafka.producer(transactional_id="kc.count.count-0", name="owner")
    owner.init_transactions(1.0)
    fencer(kafka).fence("count", "count-0")
    owner.begin()
    with pytest.raises(ProducerLostError):
        owner.send_offsets({}, "g", 1.0) or owner.commit(1.0)


def test_where_an_instance_is_told_to_wait_the_next_fences(kafka: FakeKafka) -> None:
    calls: list[str] = []
    kafka.on_call(lambda client, call: calls.append(f"{client} {call}"))
    kafka.fail_next("init_transactions", RetryableKafkaError("in progress"), client="fence")
    fencer(kafka).fence("count", "count-0")
    assert calls == ["fence init_transactions"] * 2


@pytest.mark.parametrize("error", [RetryableKafkaError("no answer"), ProducerLostError("fenced by another")])
def test_without_a_definite_answer_the_replica_counts_as_not_fenced(kafka: FakeKafka, error: Exception) -> None:
    for _ in range(len(STEPS_S) + 1):
        kafka.fail_next("init_transactions", error, client="fence")
    with pytest.raises(FenceError, match="count-0 of stage count was not fenced"):
        fencer(kafka).fence("count", "count-0")
