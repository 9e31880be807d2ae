"""Settings of the coordinator: the command line's options, or ``TOWPATH_COORDINATOR_…`` in the environment."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from towpath.coordinator.limits import Limits
from towpath.stage.settings import wrong_settings

_LIMITS = Limits()


class CoordinatorSettings(BaseSettings):
    """Everything that can be set for a coordinator.

    Each field may come from the environment as ``TOWPATH_COORDINATOR_<FIELD>``; explicit arguments win.
    """

    model_config = SettingsConfigDict(env_prefix="TOWPATH_COORDINATOR_", extra="forbid", frozen=True)

    query: str = Field(description="module that holds the query, e.g. queries.key_count")
    query_settings: dict[str, Any] = Field(default_factory=dict, description="arguments of the query's build()")
    plans: Path | None = Field(default=None, description="directory of plans made before, instead of loading the query")
    bootstrap: str = Field(default="127.0.0.1:9092", description="Kafka bootstrap servers, host:port,…")
    kafka_config: Path | None = Field(default=None, description="file of key=value client properties (TLS, SASL)")
    name: str = Field(default_factory=socket.gethostname, description="name of this coordinator in log and clients")
    http_host: str = Field(default="127.0.0.1", description="address to listen on; whoever reaches it can move tasks")
    http_port: int = Field(default=7070, ge=0, le=65535, description="port to listen on; 0: a free one")
    traces_url: str | None = Field(
        default=None, description="URL of an OpenTelemetry collector that hand-overs are traced to; else they are not"
    )
    replication: int = Field(default=-1, description="replication factor of the control log; -1: the broker's default")
    wait_s: float = Field(default=60.0, gt=0, description="longest wait for broker and source topics at start")
    stall_s: float = Field(default=30.0, gt=0, description="a turn that takes longer turns health red")
    scaler: Literal["none", "kubernetes"] = Field(
        default="none", description="who is asked for more or fewer replicas: nobody, or Kubernetes by StatefulSets"
    )
    kubernetes_namespace: str | None = Field(
        default=None, description="namespace of the StatefulSets; by default the coordinator's own"
    )
    kubernetes_name: str = Field(
        default="{stage}", pattern=r"\{stage\}", description="name of a stage's StatefulSet, with {stage} in it"
    )
    silence_s: float = Field(default=_LIMITS.silence_s, gt=0.5, description="a replica silent for this long is gone")
    absent_s: float = Field(
        default=_LIMITS.absent_s, gt=0.5, description="the same for one not heard since the coordinator's start"
    )
    prepare_timeout_s: float = Field(default=_LIMITS.prepare_timeout_s, ge=0, description="longest preparation")
    copy_timeout_s: float = Field(default=_LIMITS.copy_timeout_s, ge=0, description="longest copy before a move")
    release_timeout_s: float = Field(
        default=_LIMITS.release_timeout_s, gt=0.5, description="a replica that does not release for this long is fenced"
    )

    @property
    def limits(self) -> Limits:
        """The deadlines of the coordinator's decisions."""
        return Limits(
            silence_s=self.silence_s,
            absent_s=self.absent_s,
            prepare_timeout_s=self.prepare_timeout_s,
            copy_timeout_s=self.copy_timeout_s,
            release_timeout_s=self.release_timeout_s,
        )


def load_coordinator_settings(*layers: Mapping[str, Any]) -> CoordinatorSettings:
    """Settings from explicit values over the environment; a later layer wins, and None in it says nothing.

    Raises:
        SettingsError: one line that names every wrong setting.
    """
    given = {name: value for layer in layers for name, value in layer.items() if value is not None}
    try:
        return CoordinatorSettings(**given)
    except ValidationError as error:
        raise wrong_settings(error, CoordinatorSettings.model_fields) from error
