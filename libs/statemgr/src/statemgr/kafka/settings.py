"""Settings of the librdkafka clients, each limit with its arithmetic.

Everything here can be overridden by the ``extra`` settings of :class:`~statemgr.kafka.confluent.ConfluentKafka`
(security settings are passed that way), except the settings on which correctness rests: see :data:`FIXED`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

log = logging.getLogger("statemgr.kafka.client")
"""What librdkafka says by itself; off unless a level is set for this logger.

Everything that matters is raised or counted by the clients here, and librdkafka calls an ordinary fence "FATAL".
"""

log.addHandler(logging.NullHandler())
if log.level == logging.NOTSET:
    log.setLevel(logging.CRITICAL + 1)

TRANSACTION_TIMEOUT_MS = 10_000
"""An open transaction of a stopped writer hides everybody's records behind it, so it ends after 10 s (R18)."""

RETRY_BACKOFF_MS = 1
"""``send_offsets_to_transaction`` waits out this back-off whenever the previous transaction is still being completed.

Measured on one broker: 110 ms a transaction at librdkafka's default of 100 ms, 7–20 ms at 1 ms.
"""

RETRY_BACKOFF_MAX_MS = 100
"""Ceiling of the exponential back-off: a broker that is away for a minute sees ten requests a second, not a flood."""

LINGER_MS = 0
"""A commit flushes at once, and batches form by themselves while requests are in flight."""

MAX_RECORD_BYTES = 1_048_000
"""Largest key + value + headers that is sure to pass, for checks before ``produce`` (R21).

It leaves 588 bytes to the default ``max.message.bytes`` of a topic, 1,048,588, for the header of the batch (61), the
lengths and deltas of the record (at most 36) and those of some dozens of headers.
"""

CLIENT_RECORD_BYTES = 1_048_300
"""What the client refuses by itself, counting 36 bytes for the record's lengths and deltas.

It lies between the two limits above: 264 bytes of headers' lengths above the one, 288 below the other, of which the
batch header takes 61. So a record too large does not enter a transaction to be refused by the broker there.
"""

RECORD_OVERHEAD_BYTES = 36
"""What librdkafka adds to key, value and headers before it compares."""

PRODUCE_QUEUE_RECORDS = 200_000
"""Records in the producer's queue: 0.2 s of the fastest producer measured (1 M records/s)."""

PRODUCE_QUEUE_KBYTES = 65_536
"""64 MiB of keys and values; with ~150 bytes of book-keeping for each of 200,000 records under 100 MB in all."""

FETCH_QUEUE_BACKOFF_MS = 5
"""Pause after the prefetch queue was found full.

At librdkafka's default of 1000 the consumer stands still for 0.8–0.9 s at a time under backlog
(measured 176–363 k records/s against 790–1,034 k at 5 ms).
"""

FETCH_WAIT_MAX_MS = 50
"""How long a broker holds a fetch that finds nothing.

Data ends the wait at once, so this does not delay records. But a partition that is *added* is only asked for when the
fetch under way has returned: with nothing else to read its first record came after 274–310 ms at the default of 500,
after 16–41 ms at 50, after 4–8 ms at 20. The price is paid while idle: at 20 ms a consumer of 64 partitions kept the
broker busy for 6.8 % of a core, so 50 ms cost about 3 %.
"""

PREFETCH_RECORDS = 50_000
"""Records prefetched for each partition: 50 ms of the fastest consumer measured (1 M records/s)."""

PREFETCH_KBYTES = 32_768
"""32 MiB for all partitions of a consumer; at 100 bytes a record 335,000 records, ~100 MB with book-keeping."""

FETCH_MAX_BYTES = 16 * 1024 * 1024
"""One answer of one broker; with the queue above at most 48 MiB of data held by a consumer of one broker."""

PARTITION_FETCH_BYTES = 1_048_576
"""One partition's share of an answer; a single larger record is still delivered."""

TOPIC_PROPAGATION_MS = 5_000
"""How long a client takes a topic it does not know for "not seen yet" instead of "unknown".

Creation waits until the topic is visible, so this covers only brokers that lag behind each other.
"""

SOCKET_TIMEOUT_MS = 10_000
"""How long a client waits for the answer to a request before it reconnects."""

PRODUCER_SOCKET_TIMEOUT_MS = 5_000
"""The same for producers: half of the transaction's time-out.

librdkafka's ``send_offsets_to_transaction`` waits for this with a silent broker, whatever time-out it is called with.
"""

RECONNECT_BACKOFF_MS = 20
"""First pause before a lost connection is tried again."""

RECONNECT_BACKOFF_MAX_MS = 1_000
"""Longest pause: after a broker's restart every client is back about a second later (the default is 10 s)."""

READERS = "towpath-reader"
"""Group of all consumers, which none ever joins; librdkafka asks for its coordinator all the same. One name, so that a
broker with ACLs can allow it: who may not describe the group is refused whatever it reads."""

FIXED = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "auto.offset.reset",
        "isolation.level",
        "enable.idempotence",
        "transactional.id",
        "partitioner",
        "enable.partition.eof",
    }
)
"""Settings on which correctness rests: naming one of them in ``extra`` is refused."""

Settings = dict[str, str | int | bool | object]


def check_extra(extra: Mapping[str, str]) -> None:
    """Refuse extra settings that would break correctness.

    Raises:
        ValueError: names the settings.
    """
    refused = sorted(FIXED & extra.keys())
    if refused:
        raise ValueError(f"Kafka client settings {', '.join(refused)} are fixed by the runtime; remove them")


def common_settings(bootstrap: str, name: str, extra: Mapping[str, str]) -> Settings:
    """What every client has."""
    return {
        "bootstrap.servers": bootstrap,
        "client.id": name,
        "socket.timeout.ms": SOCKET_TIMEOUT_MS,
        "socket.keepalive.enable": True,
        "reconnect.backoff.ms": RECONNECT_BACKOFF_MS,
        "reconnect.backoff.max.ms": RECONNECT_BACKOFF_MAX_MS,
        "topic.metadata.propagation.max.ms": TOPIC_PROPAGATION_MS,
        "logger": log,
        **extra,
    }


def consumer_settings(
    bootstrap: str, name: str, extra: Mapping[str, str], *, read_committed: bool, group: str
) -> Settings:
    """A consumer that is assigned by hand; ``group`` is needed by librdkafka and never joined."""
    return {
        "fetch.queue.backoff.ms": FETCH_QUEUE_BACKOFF_MS,
        "fetch.wait.max.ms": FETCH_WAIT_MAX_MS,
        "queued.min.messages": PREFETCH_RECORDS,
        "queued.max.messages.kbytes": PREFETCH_KBYTES,
        "fetch.max.bytes": FETCH_MAX_BYTES,
        "max.partition.fetch.bytes": PARTITION_FETCH_BYTES,
        **common_settings(bootstrap, name, extra),
        "group.id": group,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": False,
        "isolation.level": "read_committed" if read_committed else "read_uncommitted",
    }


def producer_settings(bootstrap: str, name: str, extra: Mapping[str, str], *, transactional_id: str | None) -> Settings:
    """An idempotent producer, transactional if an id is given; keys choose partitions as in Java clients."""
    settings: Settings = {
        "linger.ms": LINGER_MS,
        "compression.type": "lz4",
        "retry.backoff.ms": RETRY_BACKOFF_MS,
        "retry.backoff.max.ms": RETRY_BACKOFF_MAX_MS,
        "message.max.bytes": CLIENT_RECORD_BYTES,
        "queue.buffering.max.messages": PRODUCE_QUEUE_RECORDS,
        "queue.buffering.max.kbytes": PRODUCE_QUEUE_KBYTES,
        **common_settings(bootstrap, name, {"socket.timeout.ms": str(PRODUCER_SOCKET_TIMEOUT_MS), **extra}),
        "enable.idempotence": True,
        "partitioner": "murmur2_random",
    }
    if transactional_id is not None:
        settings["transactional.id"] = transactional_id
        settings.setdefault("transaction.timeout.ms", TRANSACTION_TIMEOUT_MS)
    return settings
