"""Which reaction each class of error calls for."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from statemgr.kafka.classify import Reaction, Source, classify


def error(name: str, *, fatal: bool = False, retriable: bool = False, abort: bool = False) -> KafkaError:
    return KafkaError(getattr(KafkaError, name), name, fatal, retriable, abort)


ALL_CODES = sorted(
    name for name in dir(KafkaError) if name.strip("_").isupper() and isinstance(getattr(KafkaError, name), int)
)

EVENTS = [
    ("_PARTITION_EOF", Reaction.NOTE),
    ("_TRANSPORT", Reaction.NOTE),
    ("_ALL_BROKERS_DOWN", Reaction.NOTE),
    ("_RESOLVE", Reaction.NOTE),
    ("_TIMED_OUT", Reaction.NOTE),
    ("REQUEST_TIMED_OUT", Reaction.NOTE),
    ("NETWORK_EXCEPTION", Reaction.NOTE),
    ("LEADER_NOT_AVAILABLE", Reaction.NOTE),
    ("NOT_LEADER_FOR_PARTITION", Reaction.NOTE),
    ("FENCED_LEADER_EPOCH", Reaction.NOTE),
    ("OFFSET_NOT_AVAILABLE", Reaction.NOTE),
    ("_AUTO_OFFSET_RESET", Reaction.INPUT_LOST),
    ("OFFSET_OUT_OF_RANGE", Reaction.INPUT_LOST),
    ("_LOG_TRUNCATION", Reaction.INPUT_LOST),
    ("UNKNOWN_TOPIC_OR_PART", Reaction.MISSING),
    ("UNKNOWN_TOPIC_ID", Reaction.MISSING),
    ("_UNKNOWN_PARTITION", Reaction.MISSING),
    ("_UNKNOWN_TOPIC", Reaction.MISSING),
    ("SASL_AUTHENTICATION_FAILED", Reaction.REFUSED),
    ("_AUTHENTICATION", Reaction.REFUSED),
    ("_SSL", Reaction.REFUSED),
    ("TOPIC_AUTHORIZATION_FAILED", Reaction.REFUSED),
    ("GROUP_AUTHORIZATION_FAILED", Reaction.REFUSED),
    ("UNSUPPORTED_VERSION", Reaction.REFUSED),
    ("_FATAL", Reaction.REFUSED),
    ("_BAD_COMPRESSION", Reaction.REFUSED),
    ("UNKNOWN", Reaction.REFUSED),
]

PRODUCER_ERRORS = [
    ("_FENCED", "fatal", Reaction.LOST),
    ("PRODUCER_FENCED", "", Reaction.LOST),
    ("INVALID_PRODUCER_EPOCH", "", Reaction.LOST),
    ("INVALID_PRODUCER_ID_MAPPING", "abort", Reaction.LOST),
    ("OUT_OF_ORDER_SEQUENCE_NUMBER", "", Reaction.LOST),
    ("TRANSACTION_ABORTABLE", "abort", Reaction.LOST),
    ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "fatal", Reaction.LOST),
    ("INVALID_TXN_STATE", "fatal", Reaction.LOST),
    ("INVALID_RECORD", "abort", Reaction.LOST),
    ("_STATE", "", Reaction.LOST),
    ("_CONFLICT", "", Reaction.LOST),
    ("_INCONSISTENT", "abort", Reaction.LOST),
    ("_MSG_TIMED_OUT", "", Reaction.LOST),
    ("_PURGE_QUEUE", "", Reaction.LOST),
    ("_TIMED_OUT", "", Reaction.LOST),
    ("UNKNOWN", "", Reaction.LOST),
    ("_TIMED_OUT", "retriable", Reaction.RETRY),
    ("_TRANSPORT", "retriable", Reaction.RETRY),
    ("COORDINATOR_LOAD_IN_PROGRESS", "retriable", Reaction.RETRY),
    ("CONCURRENT_TRANSACTIONS", "retriable", Reaction.RETRY),
    ("_QUEUE_FULL", "", Reaction.RETRY),
    ("_TIMED_OUT", "retriable abort", Reaction.LOST),
    ("_TIMED_OUT", "retriable fatal", Reaction.LOST),
    ("MSG_SIZE_TOO_LARGE", "", Reaction.TOO_LARGE),
    ("MSG_SIZE_TOO_LARGE", "abort", Reaction.TOO_LARGE),
    ("RECORD_LIST_TOO_LARGE", "abort", Reaction.TOO_LARGE),
    ("MSG_SIZE_TOO_LARGE", "fatal", Reaction.LOST),
]


@pytest.mark.parametrize(("name", "reaction"), EVENTS)
def test_an_error_among_the_records(name: str, reaction: Reaction) -> None:
    assert classify(error(name), Source.EVENT) is reaction


@pytest.mark.parametrize(("name", "reaction"), EVENTS[1:])
def test_a_request_is_repeated_where_a_consumer_only_takes_note(name: str, reaction: Reaction) -> None:
    expected = Reaction.RETRY if reaction is Reaction.NOTE else reaction
    assert classify(error(name), Source.REQUEST) is expected


@pytest.mark.parametrize(("name", "flags", "reaction"), PRODUCER_ERRORS)
def test_a_producer_error(name: str, flags: str, reaction: Reaction) -> None:
    found = error(name, fatal="fatal" in flags, retriable="retriable" in flags, abort="abort" in flags)
    assert classify(found, Source.PRODUCER) is reaction


def test_a_producer_goes_on_after_no_error_without_a_flag_but_two() -> None:
    """R4: whatever is not plainly retriable ends the instance."""
    allowed = {
        "_QUEUE_FULL": Reaction.RETRY,
        "MSG_SIZE_TOO_LARGE": Reaction.TOO_LARGE,
        "RECORD_LIST_TOO_LARGE": Reaction.TOO_LARGE,
    }
    for name in ALL_CODES:
        assert classify(error(name), Source.PRODUCER) is allowed.get(name, Reaction.LOST), name


@pytest.mark.parametrize("source", list(Source))
def test_every_code_has_a_reaction_that_fits_its_source(source: Source) -> None:
    fitting = {
        Source.EVENT: {Reaction.NOTE, Reaction.INPUT_LOST, Reaction.MISSING, Reaction.REFUSED},
        Source.REQUEST: set(Reaction) - {Reaction.LOST, Reaction.TOO_LARGE},
        Source.PRODUCER: {Reaction.RETRY, Reaction.LOST, Reaction.TOO_LARGE},
    }
    for name in ALL_CODES:
        assert classify(error(name), source) in fitting[source], name


def test_a_fatal_error_is_never_passed_over() -> None:
    for name in ALL_CODES:
        assert classify(error(name, fatal=True, retriable=True), Source.EVENT) is Reaction.REFUSED
        assert classify(error(name, fatal=True, retriable=True), Source.PRODUCER) is Reaction.LOST
