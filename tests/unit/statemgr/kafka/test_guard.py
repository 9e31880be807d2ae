"""The error rule of a producer's calls (R4), without a client."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaError, KafkaException

from statemgr.errors import ProducerLostError, RecordTooLargeError, RetryableKafkaError
from statemgr.kafka.guard import Guard


def raising(error: BaseException) -> Callable[[], None]:
    def call() -> None:
        raise error

    return call


def reported(code: int, *, fatal: bool = False, retriable: bool = False, abort: bool = False) -> KafkaException:
    return KafkaException(KafkaError(code, "why", fatal, retriable, abort))


def test_an_answer_passes_with_its_arguments() -> None:
    assert Guard().call("add", lambda a, b: a + b, 1, b=2) == 3


def test_a_retriable_error_leaves_the_instance_alone() -> None:
    guard = Guard()
    with pytest.raises(RetryableKafkaError, match="commit: _TIMED_OUT: why"):
        guard.call("commit", raising(reported(KafkaError._TIMED_OUT, retriable=True)))
    guard.check()


def test_any_other_error_ends_the_instance_and_every_later_check_repeats_the_reason() -> None:
    guard = Guard()
    with pytest.raises(ProducerLostError, match="commit: _FENCED: why"):
        guard.call("commit", raising(reported(KafkaError._FENCED, fatal=True)))
    for after_failure in (True, False):
        with pytest.raises(ProducerLostError, match="commit: _FENCED: why"):
            guard.check(after_failure=after_failure)


def test_a_record_refused_by_the_client_leaves_the_instance_alone() -> None:
    guard = Guard()
    with pytest.raises(RecordTooLargeError):
        guard.call("produce to t", raising(reported(KafkaError.MSG_SIZE_TOO_LARGE)))
    guard.check()


def test_a_record_refused_by_the_broker_is_named_and_ends_the_instance() -> None:
    guard = Guard()
    with pytest.raises(RecordTooLargeError):
        guard.call("commit", raising(reported(KafkaError.MSG_SIZE_TOO_LARGE, abort=True)))
    with pytest.raises(ProducerLostError):
        guard.check()


def test_a_failed_delivery_comes_up_at_the_next_check_and_is_never_retriable() -> None:
    guard = Guard()
    guard.fail(KafkaError(KafkaError._QUEUE_FULL, "first"), "t")
    guard.fail(KafkaError(KafkaError._MSG_TIMED_OUT, "second"), "t")
    guard.check(after_failure=True)
    with pytest.raises(ProducerLostError, match="delivery to t: _QUEUE_FULL: first"):
        guard.check()


def test_an_abort_settles_failed_deliveries() -> None:
    guard = Guard()
    guard.fail(KafkaError(KafkaError._MSG_TIMED_OUT, "late"), "t")
    guard.forget_failure()
    guard.check()


def test_the_clients_disguise_of_a_fatal_error_is_seen_through() -> None:
    disguised = SystemError("returned a result with an exception set")
    disguised.__cause__ = reported(KafkaError._FENCED, fatal=True)
    with pytest.raises(ProducerLostError, match=r"flush: .*_FENCED"):
        Guard().call("flush", raising(disguised))


@pytest.mark.parametrize("error", [BufferError("full"), KeyboardInterrupt(), ZeroDivisionError()])
def test_what_is_not_the_clients_business_passes_unchanged(error: BaseException) -> None:
    guard = Guard()
    with pytest.raises(type(error)):
        guard.call("produce", raising(error))
    guard.check()
