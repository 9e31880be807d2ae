"""A broker that stops answering while a replica becomes owner."""

from __future__ import annotations

import pytest

from statemgr.errors import KafkaRefusedError, KafkaUnavailableError
from tests.unit.towpath.stage.plans import SOURCE, assert_exactly_once, bids, count_stage, pass_stage, random_auctions
from towpath.testing import StageDriver

AUCTIONS = random_auctions(20, 4)


@pytest.mark.parametrize(("stage", "call"), [("count", "bounds"), ("pass", "committed"), ("pass", "bounds")])
def test_questions_without_an_answer_are_asked_again_not_the_end(stage: str, call: str) -> None:
    plan = count_stage() if stage == "count" else pass_stage()
    driver = StageDriver(plan, partitions={SOURCE: 2})
    driver.pipe(SOURCE, bids(AUCTIONS), partition=0)
    driver.kafka.fail_next(call, KafkaUnavailableError("no answer within 10 s"), client=f"{stage}-0-offsets")
    driver.run_until_idle()
    replica = driver.process(plan.name).replica
    assert replica is not None
    assert replica.phase == "running"
    if stage == "count":
        assert_exactly_once(driver, AUCTIONS, "each")


def running() -> StageDriver:
    driver = StageDriver(count_stage(), partitions={SOURCE: 2})
    driver.pipe(SOURCE, bids(AUCTIONS), partition=0)
    driver.run_until_idle()
    return driver


def test_a_running_replica_survives_a_question_without_an_answer() -> None:
    driver = running()
    driver.kafka.fail_next("consume", KafkaUnavailableError("no answer within 10 s"), client="count-0")
    driver.run_until_idle()
    assert driver.process("count").replica.phase == "running"
    assert_exactly_once(driver, AUCTIONS, "each")


def test_a_running_replica_that_is_refused_says_so_and_ends() -> None:
    driver = running()
    driver.kafka.fail_next("consume", KafkaRefusedError("no rights"), client="count-0")
    with pytest.raises(KafkaRefusedError, match="no rights"):
        driver.run_until_idle()


def test_a_broker_that_is_not_there_at_the_start_is_an_error_once_the_wait_is_over() -> None:
    driver = StageDriver(count_stage(), partitions={SOURCE: 2}, wait_s=0.001)
    for _ in range(50):
        driver.kafka.fail_next("describe", KafkaUnavailableError("no answer within 5 s"))
    with pytest.raises(KafkaUnavailableError):
        driver.run_until_idle()
