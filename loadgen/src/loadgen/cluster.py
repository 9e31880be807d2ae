"""The Kafka cluster that a job works with: its address, and what its clients need to be let in.

Client properties (TLS, SASL) come from a file, in librdkafka's names, so that no secret stands on a command line, in a
result or in a log. The file is read when a client is made; only its path is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadgen.errors import OptionError
from statemgr.kafka.java import spark_options
from statemgr.kafka.properties import read_properties

__all__ = ["Brokers", "Cluster", "client_settings", "cluster_of", "source_options"]


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster.

    Attributes:
        bootstrap: Address of the brokers.
        config: File of `key=value` client properties; None: nothing but the address is needed.
    """

    bootstrap: str
    config: Path | None = None

    def __str__(self) -> str:
        """The address, for messages."""
        return self.bootstrap


Brokers = str | Cluster
"""A cluster, or the address of one that lets everybody in."""


def cluster_of(brokers: Brokers) -> Cluster:
    """The same as a cluster."""
    return brokers if isinstance(brokers, Cluster) else Cluster(brokers)


def client_settings(brokers: Brokers, more: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a client of librdkafka.

    Args:
        brokers: The cluster.
        more: Further settings; they win over the file's.

    Raises:
        OptionError: The file can't be read.
    """
    cluster = cluster_of(brokers)
    return {"log_level": 0, **_properties(cluster), "bootstrap.servers": cluster.bootstrap, **more}


def source_options(brokers: Brokers) -> dict[str, str]:
    """Options of Spark's Kafka source and sink; they may hold secrets.

    Raises:
        OptionError: The file can't be read, or holds what Spark's client can't do.
    """
    cluster = cluster_of(brokers)
    properties = _properties(cluster)
    try:
        return {**spark_options(properties), "kafka.bootstrap.servers": cluster.bootstrap}
    except ValueError as error:
        raise OptionError(f"{error} (from {cluster.config})") from error


def _properties(cluster: Cluster) -> dict[str, str]:
    try:
        return read_properties(cluster.config)
    except ValueError as error:
        raise OptionError(str(error)) from error
