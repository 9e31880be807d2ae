"""Settings of a stage: the command line's options, or ``TOWPATH_…`` in the environment."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from statemgr.kafka import properties
from statemgr.layout import REPLICA_NAME
from statemgr.state import REPLICA_CACHE_ENTRIES
from towpath.errors import SettingsError, nearest
from towpath.stage.assignment import StaticAssignment

SECRETS = ("schema_registry_auth",)
"""Settings that come from the environment alone: every user of a machine can read the command lines of others."""


class Guarantee(StrEnum):
    """What a reader of the outputs may rely on."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


class StageSettings(BaseSettings):
    """Everything that can be set for one replica of a stage.

    Each field may come from the environment as ``TOWPATH_<FIELD>``; explicit arguments win.
    """

    model_config = SettingsConfigDict(env_prefix="TOWPATH_", extra="forbid", frozen=True)

    query: str = Field(description="module that holds the query, e.g. queries.key_count")
    stage: str = Field(description="name of the stage to run")
    query_settings: dict[str, Any] = Field(default_factory=dict, description="arguments of the query's build()")
    bootstrap: str = Field(default="127.0.0.1:9092", description="Kafka bootstrap servers, host:port,…")
    kafka_config: Path | None = Field(default=None, description="file of key=value client properties (TLS, SASL)")
    replica_index: int = Field(default=0, ge=0, description="index of this replica in the static plan")
    replica_count: int = Field(default=1, ge=1, description="number of replicas in the static plan")
    coordinator: str | None = Field(
        default=None, description="URL of the coordinator, which then says what this replica owns; else a static plan"
    )
    replica_name: str | None = Field(
        default=None,
        pattern=REPLICA_NAME,
        description="name of this replica, unique in the application and the same after a restart; by default the "
        "host's under a coordinator",
    )
    state_dir: Path = Field(default=Path("build/state"), description="directory of this machine's stores")
    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    start_from: Literal["earliest", "latest"] = Field(
        default="earliest", description="where a task that never ran begins"
    )
    on_input_loss: Literal["stop", "skip"] = Field(
        default="stop", description="when retention deleted records that were still needed"
    )
    backend: Literal["rocksdb", "memory"] | None = Field(
        default=None, description="where state is kept; by default as the query says"
    )
    replication: int = Field(default=-1, description="replication factor of topics made here; -1: the broker's default")
    json_batch_records: int = Field(default=20_000, ge=1, description="most JSON records a batch")
    arrow_batch_records: int = Field(default=256, ge=1, description="most Arrow records a batch; each holds many rows")
    batch_interval_ms: int = Field(default=10, ge=0, description="shortest time between two batches under light load")
    commit_interval_ms: int = Field(
        default=100, ge=1, description="longest transaction under backlog, unless records are old: a tenth of their age"
    )
    offsets_interval_ms: int = Field(default=1000, ge=1, description="refresh of a keyed stage's shown offsets")
    dirty_entries: int = Field(default=200_000, ge=1, description="uncommitted state entries that force a commit")
    cache_entries: int = Field(
        default=REPLICA_CACHE_ENTRIES, ge=1, description="cached state entries of all tasks of a replica"
    )
    memory_mb: int = Field(default=256, ge=16, description="RocksDB block cache and write buffers of a replica")
    wait_s: float = Field(default=60.0, gt=0, description="longest wait for broker and topics at start")
    stall_s: float = Field(default=30.0, gt=0, description="a batch in progress for this long turns health red")
    drain_s: float = Field(
        default=60.0, ge=0, description="longest wait for the tasks to be moved away after SIGTERM, with a coordinator"
    )
    schema_registry_url: str | None = Field(
        default=None, description="URL of the schema registry, for topics in Avro and Protobuf; several with commas"
    )
    schema_registry_config: Path | None = Field(
        default=None, description="file of key=value properties of its client (basic.auth.user.info, TLS)"
    )
    schema_registry_ca: Path | None = Field(default=None, description="file of the CA certificates of the registry")
    schema_registry_auth: SecretStr | None = Field(
        default=None, description="user:password for the registry; from the environment alone"
    )
    schema_registry_register: bool = Field(
        default=True, description="register the schemas of sinks; else they must be registered"
    )
    traces_url: str | None = Field(
        default=None, description="URL of an OpenTelemetry collector that hand-overs are traced to; else they are not"
    )
    http_host: str = Field(default="127.0.0.1", description="address of health and metrics")
    http_port: int = Field(default=0, ge=0, le=65535, description="port of health and metrics; 0: a free one")

    @property
    def replica(self) -> str:
        """Name of the replica; its transactional id and its directory derive from it."""
        if self.replica_name is not None:
            return self.replica_name
        return socket.gethostname() if self.coordinator else f"{self.stage}-{self.replica_index}"


def load_settings(*layers: Mapping[str, Any]) -> StageSettings:
    """Settings from explicit values over the environment; a later layer wins, and None in it says nothing.

    Raises:
        SettingsError: one line that names every wrong setting; or a secret stands where others can read it.
    """
    for name in SECRETS:
        if any(layer.get(name) is not None for layer in layers):
            raise SettingsError(
                f"{name} is a secret, which others can read on a command line: set TOWPATH_{name.upper()} in the "
                "environment, or a file by schema_registry_config"
            )
    try:
        settings = StageSettings(
            **{name: value for layer in layers for name, value in layer.items() if value is not None}
        )
    except ValidationError as error:
        raise wrong_settings(error, StageSettings.model_fields) from error
    StaticAssignment(settings.replica_index, settings.replica_count)
    return settings


def wrong_settings(error: ValidationError, known: Iterable[str]) -> SettingsError:
    """One line that names every wrong setting, and for one that does not exist the nearest that does."""
    problems = []
    for item in error.errors():
        name = ".".join(str(part) for part in item["loc"])
        unknown = item["type"] == "extra_forbidden"
        problems.append(f"{name}: " + (f"no such setting{nearest(name, known)}" if unknown else item["msg"]))
    return SettingsError("wrong settings: " + "; ".join(problems))


def read_properties(path: Path | None) -> dict[str, str]:
    """Client properties from a ``key=value`` file, so that secrets never stand on a command line.

    Raises:
        SettingsError: the file can't be read, or a line has no ``=``.
    """
    try:
        return properties.read_properties(path)
    except ValueError as error:
        raise SettingsError(str(error)) from error
