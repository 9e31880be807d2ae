"""The cluster that a command works with, checked before anything is begun."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka import KafkaException

from statemgr.addresses import parse_servers
from statemgr.kafka.confluent import ConfluentKafka
from towpath.errors import SettingsError
from towpath.stage.settings import read_properties


def connect(bootstrap: str, kafka_config: Path | None) -> ConfluentKafka:
    """Clients of one cluster; does not wait for a broker.

    Args:
        bootstrap: ``host:port`` of one or more brokers.
        kafka_config: file of further client properties.

    Raises:
        SettingsError: an address lacks its port, the file can't be read, or the client refuses what stands there.
    """
    try:
        parse_servers(bootstrap)
    except ValueError as error:
        raise SettingsError(str(error)) from error
    properties = read_properties(kafka_config)
    origin = f" (from {kafka_config})" if kafka_config is not None else ""
    try:
        kafka = ConfluentKafka(bootstrap, properties)
        kafka.admin()
    except KafkaException as error:
        raise SettingsError(f"Kafka client settings{origin} are refused: {error.args[0].str()}") from error
    except ValueError as error:
        raise SettingsError(f"{error}{origin}") from error
    return kafka
