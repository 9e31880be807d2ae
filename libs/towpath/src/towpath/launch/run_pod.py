"""What a pod is made of: command lines of its two processes, and how a death is reported."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from urllib.parse import quote

from statemgr.log_format import log_format
from statemgr.security import Credentials
from statemgr.security.post import Poster
from towpath.errors import SettingsError
from towpath.launch.pod import Part, PodPolicy
from towpath.launch.supervise import Supervisor, say
from towpath.outline import find_outline

DRAIN_SHARE = 0.75
"""Of the grace period, for the stage; the rest at least is the state manager's, whose copies are still asked for."""

REPORT_TIMEOUT_S = 2.0
"""The coordinator answers within milliseconds; a silent replica is taken for dead after three seconds."""

TOWPATH = (sys.executable, "-m", "towpath.cli")
STATEMGR = (sys.executable, "-m", "statemgr.cli")


@dataclass(frozen=True)
class PodSettings:
    """What is run.

    Attributes:
        query: module of the query.
        stage: the stage.
        coordinator: its URL.
        replica: name of the replica.
        bootstrap: of Kafka.
        state_dir: directory of the stores.
        state_host: address at which the state manager listens.
        kafka_config: file of client properties.
        grace_s: from the stop request to the end.
        query_settings: ``name=value`` arguments of the query.
        further: other options of ``towpath stage``.
        plans: directory of plans that were made before, see :mod:`towpath.outline`.
        credentials: shown to the coordinator; the processes read them for themselves.
    """

    query: str
    stage: str
    coordinator: str
    replica: str
    bootstrap: str
    state_dir: Path
    state_host: str
    kafka_config: Path | None
    grace_s: float
    query_settings: Sequence[str] = ()
    further: Sequence[str] = ()
    plans: Path | None = None
    credentials: Credentials = field(default_factory=Credentials)


def run_pod(settings: PodSettings) -> int:
    """Run a pod until it is asked to stop and all its processes have ended.

    Returns:
        Exit status of the stage.

    Raises:
        SettingsError: the query can't be loaded or has no such stage, or the log's format is none.
    """
    try:
        log_format()
    except ValueError as error:
        raise SettingsError(str(error)) from error
    outline = find_outline(settings.query, settings.query_settings, settings.plans)
    stateful = outline.stage(settings.stage).stateful
    commands = {Part.STAGE: stage_command(settings)}
    if stateful:
        commands[Part.STATE_MANAGER] = state_manager_command(settings, outline.app)
    policy = PodPolicy(stateful, settings.grace_s)
    return asyncio.run(Supervisor(policy, commands, lambda: _report(settings)).run())


def stage_command(settings: PodSettings) -> list[str]:
    """Command line of the stage process."""
    return [
        *(*TOWPATH, "stage", settings.query, "--stage", settings.stage),
        *("--coordinator", settings.coordinator, "--replica", settings.replica),
        *("--bootstrap", settings.bootstrap, "--state-dir", str(settings.state_dir)),
        *_kafka_config(settings),
        *_query_settings(settings),
        *("--option", f"drain_s={settings.grace_s * DRAIN_SHARE:g}"),
        *settings.further,
    ]


def state_manager_command(settings: PodSettings, app: str) -> list[str]:
    """Command line of the state manager."""
    return [
        *(*STATEMGR, "serve", "--app", app, "--replica", settings.replica),
        *("--state-dir", str(settings.state_dir / app / settings.replica)),
        *("--bootstrap", settings.bootstrap, "--coordinator", settings.coordinator),
        *("--host", settings.state_host, "--leave-after-s", f"{settings.grace_s:g}"),
        *_kafka_config(settings),
    ]


def _kafka_config(settings: PodSettings) -> list[str]:
    return [] if settings.kafka_config is None else ["--kafka-config", str(settings.kafka_config)]


def _query_settings(settings: PodSettings) -> list[str]:
    return [part for pair in settings.query_settings for part in ("--set", pair)]


def _report(settings: PodSettings) -> None:
    """Tell the coordinator; by hand, since loading its client takes as long as its patience is worth."""
    path = f"/replicas/{quote(settings.stage, safe='')}/{quote(settings.replica, safe='')}/died"
    try:
        Poster(settings.credentials, REPORT_TIMEOUT_S)(settings.coordinator.rstrip("/") + path, b"")
    except (OSError, HTTPException) as error:  # also an answer that breaks off
        say(f"the death of the stage could not be reported, its silence will tell: {error}")
