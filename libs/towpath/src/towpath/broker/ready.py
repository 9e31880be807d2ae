"""Asks a broker whether it serves clients, and creates what their first calls need."""

import socket
from collections.abc import Mapping

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic  # type: ignore[attr-defined]

from towpath.broker.ports import HOST

__all__ = ["INTERNAL_TOPICS", "answers", "create_internal_topics"]

_CONNECT_SECONDS = 1.0
"""Seconds for a connection on the loopback interface, which is refused or made at once."""

_SEGMENT_BYTES = str(100 << 20)

INTERNAL_TOPICS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "__consumer_offsets": (
        "offsets.topic.num.partitions",
        {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": _SEGMENT_BYTES},
    ),
    "__transaction_state": (
        "transaction.state.log.num.partitions",
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "segment.bytes": _SEGMENT_BYTES,
            "min.insync.replicas": "1",
            "unclean.leader.election.enable": "false",
        },
    ),
}
"""Topics that Kafka creates at the first use of a group or transaction → the broker property that
gives their partition count, and the settings that Kafka gives them then."""


def answers(port: int, timeout: float) -> bool:
    """Tells whether a broker serves clients: it knows itself, and leads its internal topics.

    Args:
        port: Its port on the loopback interface.
        timeout: Seconds it may take.
    """
    if not _listens(port):
        # Spares the client library its back-off: the first try that finds a listener succeeds.
        return False
    try:
        return _serves(_admin(port).list_topics(timeout=timeout))
    except KafkaException:
        return False


def create_internal_topics(port: int, settings: Mapping[str, str], timeout: float) -> None:
    """Creates the topics behind groups and transactions, unless they exist.

    Left to the first client, the creation takes about a second of retries. Worse, librdkafka
    (2.16) asks three times for a group's coordinator and, with a short `retry.backoff.ms`, can
    be done with that before the topic exists: `send_offsets_to_transaction` then never returns.

    Args:
        port: The broker's port on the loopback interface.
        settings: The broker's properties.
        timeout: Seconds it may take.

    Raises:
        KafkaException: If the broker refuses, or doesn't answer in time.
    """
    admin = _admin(port)
    existing = admin.list_topics(timeout=timeout).topics
    wanted = [
        NewTopic(name, int(settings[count]), 1, config=dict(config))
        for name, (count, config) in INTERNAL_TOPICS.items()
        if name not in existing
    ]
    if not wanted:
        return
    for created in admin.create_topics(wanted, operation_timeout=timeout, request_timeout=timeout).values():
        try:
            created.result(timeout)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def _admin(port: int) -> AdminClient:
    return AdminClient({"bootstrap.servers": f"{HOST}:{port}", "log_level": 0})


def _serves(cluster: ClusterMetadata) -> bool:
    internal = [cluster.topics[name] for name in INTERNAL_TOPICS if name in cluster.topics]
    led = all(partition.leader >= 0 for topic in internal for partition in topic.partitions.values())
    return bool(cluster.brokers) and led


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), _CONNECT_SECONDS).close()
    except OSError:
        return False
    return True
