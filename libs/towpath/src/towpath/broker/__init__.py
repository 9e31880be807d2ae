"""A real Kafka without Docker: a single-node KRaft broker on the local JVM."""

from towpath.broker.errors import (
    BrokerDeadlineError,
    BrokerDiedError,
    BrokerError,
    BrokerNotRunningError,
    BrokerRunningError,
    BrokerSettingError,
    BrokerStartError,
    BrokerUsageError,
    DataDirError,
    DiskFullError,
    PortTakenError,
)
from towpath.broker.jvm import KAFKA_VERSION, kafka_jars
from towpath.broker.local import LocalBroker, Started
from towpath.broker.state import BrokerState

__all__ = [
    "KAFKA_VERSION",
    "BrokerDeadlineError",
    "BrokerDiedError",
    "BrokerError",
    "BrokerNotRunningError",
    "BrokerRunningError",
    "BrokerSettingError",
    "BrokerStartError",
    "BrokerState",
    "BrokerUsageError",
    "DataDirError",
    "DiskFullError",
    "LocalBroker",
    "PortTakenError",
    "Started",
    "kafka_jars",
]
