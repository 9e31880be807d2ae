# ruff: noqa: SLF001 - codes of errors that arise in the client itself begin with an underscore
"""Which reaction an error of librdkafka calls for: one pure decision for every client (R4).

::

    reaction     meaning                                              raised as
    ─────────    ──────────────────────────────────────────────────   ───────────────────────────────────────────────
    NOTE         the client repairs it by itself: count it, go on     nothing
    RETRY        the same call may be repeated until its deadline     RetryableKafkaError / KafkaUnavailableError then
    LOST         the producer instance can't be trusted any more      ProducerLostError
    TOO_LARGE    this record never fits                               RecordTooLargeError
    INPUT_LOST   a position lies outside the log                      InputLostError
    MISSING      topic or partition does not exist                    TopicMissingError
    REFUSED      wrong credentials, rights, address or settings       KafkaUnavailableError with the remedy
"""

from __future__ import annotations

from enum import Enum

from confluent_kafka import KafkaError


class Reaction(Enum):
    """What to do about an error."""

    NOTE = "note"
    RETRY = "retry"
    LOST = "lost"
    TOO_LARGE = "too large"
    INPUT_LOST = "input lost"
    MISSING = "missing"
    REFUSED = "refused"


class Source(Enum):
    """Where an error came up."""

    EVENT = "event"
    """As a message of a consumer, or in an error callback."""
    REQUEST = "request"
    """As the answer to a query or an administration request, all of which may be repeated."""
    PRODUCER = "producer"
    """From a call of a producer, or as a delivery report."""


_INPUT_LOST = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._LOG_TRUNCATION})
_MISSING = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
        KafkaError.TOPIC_EXCEPTION,
    }
)
_TOO_LARGE = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
_REFUSED = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError._INVALID_ARG,
        KafkaError._UNSUPPORTED_FEATURE,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        KafkaError.UNSUPPORTED_VERSION,
        KafkaError.POLICY_VIOLATION,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REPLICATION_FACTOR,
    }
)
_PASSING = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TIMED_OUT,
        KafkaError._TIMED_OUT_QUEUE,
        KafkaError._WAIT_COORD,
        KafkaError._WAIT_CACHE,
        KafkaError._IN_PROGRESS,
        KafkaError._RETRY,
        KafkaError._NODE_UPDATE,
        KafkaError._NOENT,
        KafkaError._DESTROY_BROKER,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.UNSTABLE_OFFSET_COMMIT,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NOT_ENOUGH_REPLICAS,
        KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        KafkaError.PREFERRED_LEADER_NOT_AVAILABLE,
        KafkaError.FETCH_SESSION_ID_NOT_FOUND,
        KafkaError.INVALID_FETCH_SESSION_EPOCH,
        KafkaError.THROTTLING_QUOTA_EXCEEDED,
        KafkaError.REBOOTSTRAP_REQUIRED,
    }
)


def classify(error: KafkaError, source: Source) -> Reaction:
    """Decide about an error.

    Args:
        error: as reported by librdkafka; its flags (fatal, retriable, abort required) count, not only its code.
        source: where it came up. The same code can be a passing trouble of a consumer and the end of a producer.

    Returns:
        The reaction. An error nobody has heard of is never passed over: LOST for a producer, REFUSED elsewhere.
    """
    if source is Source.PRODUCER:
        return _classify_producer(error)
    code = error.code()
    if error.fatal() or code == KafkaError._FATAL:
        return Reaction.REFUSED
    if code in _INPUT_LOST:
        return Reaction.INPUT_LOST
    if code in _MISSING:
        return Reaction.MISSING
    if code in _REFUSED:
        return Reaction.REFUSED
    if code == KafkaError._PARTITION_EOF:
        return Reaction.NOTE
    if code in _PASSING or error.retriable():
        return Reaction.NOTE if source is Source.EVENT else Reaction.RETRY
    return Reaction.REFUSED


def _classify_producer(error: KafkaError) -> Reaction:
    if error.fatal():
        return Reaction.LOST
    if error.code() in _TOO_LARGE:
        # Before "abort required", with which it comes when a broker refuses the record: a new instance would only meet
        # the same record again.
        return Reaction.TOO_LARGE
    if error.txn_requires_abort():
        return Reaction.LOST
    if error.retriable() or error.code() == KafkaError._QUEUE_FULL:
        return Reaction.RETRY
    return Reaction.LOST
