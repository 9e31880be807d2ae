"""A real broker that lets in whom it knows: TLS with certificates on both sides, SASL, and ACLs for each user.

A second listener, without all that, is for the test itself, which may do everything.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from statemgr.security import Tls
from tests.harness.certificates import Authority
from tests.harness.waiting import wait_for
from towpath.broker import jvm
from towpath.broker.layout import Layout
from towpath.broker.ports import HOST, free_port
from towpath.broker.ready import answers, create_internal_topics
from towpath.broker.settings import DEFAULTS, logging_settings, write_properties
from towpath.jars import find_java

START_LIMIT_S = 60.0
REQUEST_LIMIT_S = 20.0
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"

Rights = Mapping[tuple[ResourceType, ResourcePatternType, str], str]
"""Resource, how its name is to be taken, name → operations, as Kafka calls them."""


class SecuredBroker:
    """One broker.

    Args:
        directory: where everything of it lies.
        passwords: user → password.

    Attributes:
        bootstrap: of the listener that asks who it is.
        open: of the one that does not.
        log: Kafka's log file.
    """

    def __init__(self, directory: Path, passwords: Mapping[str, str]) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._layout = Layout(directory)
        self._authority = Authority(directory / "certificates")
        self._passwords = passwords
        self._port, self._open_port, controller_port = free_port(), free_port(), free_port()
        self.bootstrap, self.open = f"{HOST}:{self._port}", f"{HOST}:{self._open_port}"
        self.log = self._layout.log
        self._settings = self._make_settings(controller_port)
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it serves."""
        java, jars = find_java(), jvm.kafka_jars()
        write_properties(self._layout.properties, self._settings)
        write_properties(self._layout.logging, logging_settings(self._layout.log.name))
        jvm.format_storage(java, jars, self._layout)
        command = jvm.broker_command(java, jars, self._layout, "512m", jvm.SHORT_LIVED_FLAGS)
        self._child = jvm.launch(command, self._layout, tied=True)
        wait_for("the broker serves", lambda: answers(self._open_port, 2.0), START_LIMIT_S, self._describe)
        create_internal_topics(self._open_port, self._settings, REQUEST_LIMIT_S)

    def stop(self) -> None:
        """End it."""
        if self._child is not None:
            self._child.terminate()
            self._child.wait(REQUEST_LIMIT_S)

    def allow(self, user: str, rights: Rights) -> None:
        """Give a user rights."""
        bindings = [
            AclBinding(kind, name, pattern, f"User:{user}", "*", AclOperation[operation], AclPermissionType.ALLOW)
            for (kind, pattern, name), operations in rights.items()
            for operation in operations.split()
        ]
        admin = AdminClient({"bootstrap.servers": self.open, "log_level": 0})
        for made in admin.create_acls(bindings, request_timeout=REQUEST_LIMIT_S).values():
            made.result(REQUEST_LIMIT_S)

    def client(self, user: str, password: str | None = None) -> Path:
        """File of client properties of a user, in librdkafka's names; ``password``: another than the right one."""
        tls = self.certificate(user)
        properties = {
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": str(tls.ca),
            "ssl.certificate.location": str(tls.cert),
            "ssl.key.location": str(tls.key),
            "sasl.mechanism": "PLAIN",
            "sasl.username": user,
            "sasl.password": password or self._passwords[user],
        }
        file = self._layout.root / f"{user}{'' if password is None else '-wrong'}.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return file

    def certificate(self, name: str) -> Tls:
        """A client's certificate."""
        return self._authority.issue(name, HOST)

    def _make_settings(self, controller_port: int) -> dict[str, str]:
        own = self._authority.issue("broker", HOST)
        store = self._layout.root / "broker-store.pem"
        store.write_bytes(own.key.read_bytes() + own.cert.read_bytes())
        users = " ".join(f'user_{name}="{password}"' for name, password in self._passwords.items())
        listeners = {
            "OPEN": f"OPEN://{self.open}",
            "SECURED": f"SECURED://{self.bootstrap}",
            "CONTROLLER": f"CONTROLLER://{HOST}:{controller_port}",
        }
        return {
            **DEFAULTS,
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{HOST}:{controller_port}",
            "listeners": ",".join(listeners.values()),
            "advertised.listeners": ",".join(each for name, each in listeners.items() if name != "CONTROLLER"),
            "listener.security.protocol.map": "OPEN:PLAINTEXT,SECURED:SASL_SSL,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "OPEN",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": "kafka",
            "listener.name.secured.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.secured.plain.sasl.jaas.config": f"{LOGIN} required {users};",
            "listener.name.secured.ssl.client.auth": "required",
            "listener.name.secured.ssl.keystore.type": "PEM",
            "listener.name.secured.ssl.keystore.location": str(store),
            "listener.name.secured.ssl.truststore.type": "PEM",
            "listener.name.secured.ssl.truststore.location": str(self._authority.certificate),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }

    def _describe(self) -> str:
        logs = [self._layout.jvm_log, self._layout.log]
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in logs if path.exists())


def topics(prefix: str, operations: str) -> Rights:
    """Rights on topics whose names begin so."""
    return {(ResourceType.TOPIC, ResourcePatternType.PREFIXED, prefix): operations}


def topic(name: str, operations: str) -> Rights:
    """Rights on one topic."""
    return {(ResourceType.TOPIC, ResourcePatternType.LITERAL, name): operations}


def transactions(prefix: str) -> Rights:
    """Rights on transactional ids that begin so."""
    return {(ResourceType.TRANSACTIONAL_ID, ResourcePatternType.PREFIXED, prefix): "WRITE DESCRIBE"}


def group(prefix: str, operations: str = "READ") -> Rights:
    """Rights on consumer groups whose names begin so."""
    return {(ResourceType.GROUP, ResourcePatternType.PREFIXED, prefix): operations}


def together(*rights: Rights) -> Rights:
    """All of them."""
    return {resource: operations for each in rights for resource, operations in each.items()}


def refusals(log: Path) -> list[str]:
    """What a broker has refused, by its log."""
    lines = log.read_text(errors="replace").splitlines()
    return [line for line in lines if "is Denied operation" in line or "Failed authentication" in line]
