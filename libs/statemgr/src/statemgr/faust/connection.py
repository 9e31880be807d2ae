"""How the driver reaches Kafka: with the addresses and credentials that the application has given to Faust."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient
from faust.transport.drivers.aiokafka import credentials_to_aiokafka_auth, server_list
from faust.types.enums import ProcessingGuarantee

CONSUMER = {
    "enable_auto_commit": False,
    "auto_offset_reset": "earliest",
    "max_partition_fetch_bytes": 4 * 1024 * 1024,
    "fetch_max_wait_ms": 50,
}
"""For reading without a group: nothing is committed, and an answer that has nothing to say comes soon."""


@dataclass(frozen=True)
class Connection:
    """Makes clients for one application.

    Args:
        servers: bootstrap servers.
        auth: TLS and SASL settings as aiokafka takes them.
        name: client id.
        committed: whether records of open and aborted transactions are left out.
    """

    servers: list[str]
    auth: dict[str, Any]
    name: str
    committed: bool = False

    @classmethod
    def of(cls, app: Any) -> Connection:
        """As the application is configured."""
        conf, transport = app.conf, app.transport
        auth = dict(credentials_to_aiokafka_auth(conf.broker_credentials, conf.ssl_context))
        return cls(
            servers=server_list(transport.url, transport.default_port),
            auth=auth,
            name=f"{conf.broker_client_id}-statemgr",
            committed=conf.processing_guarantee == ProcessingGuarantee.EXACTLY_ONCE,
        )

    def consumer(self) -> aiokafka.AIOKafkaConsumer:
        """A consumer without a group."""
        isolation = "read_committed" if self.committed else "read_uncommitted"
        return aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.servers,
            client_id=self.name,
            group_id=None,
            isolation_level=isolation,
            **CONSUMER,
            **self.auth,
        )

    def admin(self) -> AIOKafkaAdminClient:
        """An administrator."""
        return AIOKafkaAdminClient(bootstrap_servers=self.servers, client_id=self.name, **self.auth)
