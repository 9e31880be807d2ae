"""Kafka's side of a measurement: topics that are fit for it, their offsets, and the broker's clock."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import Consumer, IsolationLevel, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from loadgen.cluster import Brokers, client_settings
from loadgen.errors import ClockError, TopicError, UnreachableError

__all__ = [
    "MAX_CLOCK_OFFSET_MS",
    "PROBE_TOPIC",
    "ClockReading",
    "Offsets",
    "append_span_ms",
    "check_clock",
    "earliest_offsets",
    "end_offsets",
    "ensure_probe_topic",
    "ensure_topic",
    "measure_clock",
    "parse_create",
    "topic_faults",
]

Offsets = dict[int, int]
"""Partition → offset."""

REQUEST_TIMEOUT_S = 10.0
"""For one answer of the broker; its own time-out for a request is 5 s by default, times two."""

CONNECT_TIMEOUT_S = 5.0
"""For the first answer: a broker that runs gives it within 0.1 s, one that is starting within 3 s."""

BOUNCE_S = 60.0
"""How long a job that runs waits for a broker that is restarted."""

BETWEEN_TRIES_S = 0.5

MIN_RETENTION_MS = 3_600_000
"""One hour. Shorter retention deletes events while a run is being measured or verified."""

LOAD_TOPIC_CONFIG = {"message.timestamp.type": "LogAppendTime", "retention.ms": "-1"}
"""Append time is the measurement; events of 2015 must not be deleted for their age."""

PROBE_TOPIC = "towpath-probe"
"""Holds records without meaning: the stamps by which the broker's clock is read, and the load's warm-up."""

CLOCK_PROBES = 7
"""The fastest of seven round trips; on loopback it takes 1–2 ms, the slowest of seven 5–30 ms."""

MAX_CLOCK_OFFSET_MS = 50.0
"""Latency is a difference of two clocks. Beyond this offset the figures would be about the clocks."""


def parse_create(text: str) -> int:
    """Reads `partitions=8` (or `8`).

    Raises:
        TopicError: The text is no positive number of partitions.
    """
    number = text.removeprefix("partitions=").strip()
    if not number.isdigit() or int(number) < 1:
        raise TopicError(f"--create-topic {text!r} is not understood; write --create-topic partitions=8")
    return int(number)


def topic_faults(config: Mapping[str, str]) -> list[str]:
    """Says what makes a topic unfit to be measured.

    Args:
        config: The topic's settings as the broker reports them.

    Returns:
        One sentence with cause and remedy per fault; empty if there is none.
    """
    faults = []
    if config.get("message.timestamp.type") != "LogAppendTime":
        faults.append(
            "its timestamps are the producers', not the time of append: set message.timestamp.type=LogAppendTime"
        )
    if config.get("cleanup.policy", "delete") != "delete":
        faults.append(f"cleanup.policy={config.get('cleanup.policy')} would remove events: set cleanup.policy=delete")
    retention = int(config.get("retention.ms", "-1"))
    if 0 <= retention < MIN_RETENTION_MS:
        faults.append(f"retention.ms={retention} is shorter than a run: set retention.ms=-1")
    return faults


def ensure_topic(bootstrap: Brokers, topic: str, create_partitions: int | None = None) -> int:
    """Makes sure that a topic exists and is fit to be measured.

    Args:
        bootstrap: The cluster.
        topic: Name.
        create_partitions: Create it with that many partitions if it does not exist.

    Returns:
        Number of partitions.

    Raises:
        TopicError: It is missing and not to be created, has another number of partitions, or is unfit.
    """
    admin = _admin(bootstrap)
    partitions = _partition_count(admin, bootstrap, topic)
    if partitions is None:
        if create_partitions is None:
            raise TopicError(f"topic {topic} does not exist; create it, or add --create-topic partitions=8")
        _create(admin, NewTopic(topic, num_partitions=create_partitions, config=LOAD_TOPIC_CONFIG))
        return create_partitions
    if create_partitions not in (None, partitions):
        raise TopicError(
            f"topic {topic} has {partitions} partitions, not {create_partitions}; delete it, or ask for {partitions}"
        )
    resource = ConfigResource(ResourceType.TOPIC, topic)
    answer = admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S)[resource].result()
    faults = topic_faults({name: str(entry.value) for name, entry in answer.items()})
    if faults:
        raise TopicError(f"topic {topic} can't be measured: {'; '.join(faults)}")
    return partitions


def end_offsets(bootstrap: Brokers, topic: str, *, committed: bool = False, patience_s: float = 0.0) -> Offsets:
    """Offsets after the last record of each partition.

    Args:
        bootstrap: The cluster.
        topic: Name.
        committed: Up to the last stable offset (what a read_committed reader sees), else the high watermark.
        patience_s: How long to ask again while no broker answers.

    Raises:
        TopicError: There is no such topic.
        UnreachableError: No broker answers.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            return _list_offsets(bootstrap, topic, OffsetSpec.latest(), committed)  # type: ignore[no-untyped-call]
        except UnreachableError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(BETWEEN_TRIES_S)


def earliest_offsets(bootstrap: Brokers, topic: str) -> Offsets:
    """Offset of the first record that each partition still has."""
    return _list_offsets(bootstrap, topic, OffsetSpec.earliest(), committed=False)  # type: ignore[no-untyped-call]


def append_span_ms(bootstrap: Brokers, topic: str, start: Offsets, end: Offsets) -> tuple[int, int] | None:
    """Append times of the first and the last record between offsets, over all partitions.

    Returns:
        Milliseconds since the Unix epoch, or None if there is no record.
    """
    firsts = {p: start.get(p, 0) for p, offset in end.items() if offset > start.get(p, 0)}
    if not firsts:
        return None
    # Two before the end: the last record may be followed by a transaction's marker.
    lasts = {p: max(end[p] - 2, first) for p, first in firsts.items()}
    consumer = Consumer(_reader_config(bootstrap))
    try:
        return min(_stamps_at(consumer, topic, firsts)), max(_stamps_at(consumer, topic, lasts))
    finally:
        consumer.close()


@dataclass(frozen=True, slots=True)
class ClockReading:
    """How far the broker's clock is ahead of this host's.

    Attributes:
        offset_ms: Broker minus host, in ms.
        error_ms: The true offset is within `offset_ms` ± `error_ms`.
    """

    offset_ms: float
    error_ms: float


def check_clock(reading: ClockReading, limit_ms: float = MAX_CLOCK_OFFSET_MS) -> None:
    """Refuses clocks whose difference would be taken for latency.

    Raises:
        ClockError: They differ by more than the limit, beyond what the measurement's error explains.
    """
    if abs(reading.offset_ms) - reading.error_ms > limit_ms:
        raise ClockError(
            f"the broker's clock is {reading.offset_ms:+.0f} ms (± {reading.error_ms:.0f}) from this host's, more than "
            f"{limit_ms:.0f} ms: latencies would be wrong by as much; synchronise the clocks (NTP) or use one host"
        )


def ensure_probe_topic(bootstrap: Brokers, topic: str = PROBE_TOPIC) -> None:
    """Creates the topic for probes, with one partition and an hour's retention, if it is missing."""
    admin = _admin(bootstrap)
    if _partition_count(admin, bootstrap, topic) is None:
        config = LOAD_TOPIC_CONFIG | {"retention.ms": str(MIN_RETENTION_MS)}
        _create(admin, NewTopic(topic, num_partitions=1, config=config))


def measure_clock(bootstrap: Brokers, topic: str = PROBE_TOPIC) -> ClockReading:
    """Measures the offset of the broker's clock by records that it stamps (Cristian's algorithm).

    Args:
        bootstrap: The cluster.
        topic: A topic of one partition for the probes; it is created if need be.

    Returns:
        The reading of the fastest round trip.

    Raises:
        TopicError: The broker did not take the probes.
    """
    ensure_probe_topic(bootstrap, topic)
    producer = Producer(client_settings(bootstrap, {"linger.ms": 0}))
    readings = [_probe(producer, topic) for _ in range(CLOCK_PROBES)]
    return min(readings, key=lambda reading: reading.error_ms)


def _probe(producer: Producer, topic: str) -> ClockReading:
    stamps: list[int] = []

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            stamps.append(message.timestamp()[1])

    sent = time.time() * 1000
    producer.produce(topic, b"clock", on_delivery=delivered)
    producer.flush(REQUEST_TIMEOUT_S)
    received = time.time() * 1000
    if not stamps:
        raise TopicError(f"the broker did not take a record for topic {topic} within {REQUEST_TIMEOUT_S:.0f} s")
    half = (received - sent) / 2
    return ClockReading(stamps[0] - (sent + half), half + 1)  # a stamp is a whole millisecond


def _admin(bootstrap: Brokers) -> AdminClient:
    return AdminClient(client_settings(bootstrap, {}))


def _reader_config(bootstrap: Brokers) -> dict[str, Any]:
    return client_settings(
        bootstrap,
        {
            "group.id": "towpath-load-reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
            "max.partition.fetch.bytes": 65_536,
        },
    )


def _partition_count(admin: AdminClient, bootstrap: Brokers, topic: str) -> int | None:
    try:
        listed = admin.list_topics(timeout=CONNECT_TIMEOUT_S).topics.get(topic)
    except KafkaException as error:
        raise _unreachable(bootstrap, error) from error
    return len(listed.partitions) if listed and listed.partitions else None


def _unreachable(bootstrap: Brokers, error: KafkaException) -> UnreachableError:
    return UnreachableError(f"no answer from Kafka at {bootstrap} ({error.args[0].str()}); is the broker running?")


def _create(admin: AdminClient, topic: NewTopic) -> None:
    try:
        admin.create_topics([topic], operation_timeout=REQUEST_TIMEOUT_S)[topic.topic].result()
    except KafkaException as error:
        raise TopicError(f"topic {topic.topic} can't be created: {error.args[0].str()}") from error


def _list_offsets(bootstrap: Brokers, topic: str, spec: OffsetSpec, committed: bool) -> Offsets:
    admin = _admin(bootstrap)
    count = _partition_count(admin, bootstrap, topic)
    if count is None:
        raise TopicError(f"topic {topic} does not exist")
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    asked = {TopicPartition(topic, partition): spec for partition in range(count)}
    answers = admin.list_offsets(asked, isolation_level=level, request_timeout=REQUEST_TIMEOUT_S)
    try:
        return {key.partition: future.result().offset for key, future in answers.items()}
    except KafkaException as error:
        raise _unreachable(bootstrap, error) from error


def _stamps_at(consumer: Consumer, topic: str, offsets: Offsets) -> list[int]:
    """Append times of the first one or two records at or after an offset of each partition."""
    consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in offsets.items()])
    missing, stamps = set(offsets), []
    deadline = time.monotonic() + REQUEST_TIMEOUT_S
    while missing and time.monotonic() < deadline:
        for message in consumer.consume(64, timeout=0.05):
            partition, offset = message.partition() or 0, message.offset() or 0
            if message.error() is None and offset <= offsets[partition] + 1:
                missing.discard(partition)
                stamps.append(int(message.timestamp()[1]))
    if missing:
        raise TopicError(f"no record at {missing} of {topic} within {REQUEST_TIMEOUT_S:.0f} s; was it truncated?")
    return stamps
