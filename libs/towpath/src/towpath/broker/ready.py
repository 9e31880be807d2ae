"""Asks a broker whether it serves clients."""

import socket

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from towpath.broker.ports import HOST

__all__ = ["answers"]

_CONNECT_SECONDS = 1.0
"""Seconds for a connection on the loopback interface, which is refused or made at once."""


def answers(port: int, timeout: float) -> bool:
    """Tells whether the broker on a port gives cluster metadata that names a broker.

    Args:
        port: Its port on the loopback interface.
        timeout: Seconds it may take.
    """
    if not _listens(port):
        # Spares the client library its back-off: the first try that finds a listener succeeds.
        return False
    client = AdminClient({"bootstrap.servers": f"{HOST}:{port}", "log_level": 0})
    try:
        return bool(client.list_topics(timeout=timeout).brokers)
    except KafkaException:
        return False


def _listens(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), _CONNECT_SECONDS).close()
    except OSError:
        return False
    return True
