"""Wires a replica to its coordinator: control log, heartbeats, state managers."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from statemgr.clock import Clock
from statemgr.control.log import ControlReader
from statemgr.kafka.ports import Kafka
from statemgr.migration.ports import Spawn, StateClient
from statemgr.security import Credentials
from statemgr.sidecar.client import GrpcStateClient
from statemgr.sidecar.endpoint import read_endpoint
from statemgr.store import StoreBackend
from towpath.coordinator.client import CoordinatorClient
from towpath.query.plan import StagePlan
from towpath.stage.arrivals import Arrivals
from towpath.stage.background import Background
from towpath.stage.coordinated import Coordinated, Identity
from towpath.stage.copying import CopyMaker
from towpath.stage.hand_over import HandOvers
from towpath.stage.link import HttpLink, Link
from towpath.stage.metrics import StageMetrics
from towpath.stage.opener import Opener
from towpath.stage.opening import Opening
from towpath.stage.ownership import Ownership
from towpath.stage.preparations import Preparations
from towpath.stage.settings import StageSettings
from towpath.tracing import NO_SPANS, Spans, start_tracing


def state_address(directory: Path) -> str:
    """Address of the state manager that serves a replica's directory; empty while there is none."""
    with suppress(OSError):
        found = read_endpoint(directory)
        return found.address if found is not None else ""
    return ""


def join(
    plan: StagePlan,
    settings: StageSettings,
    kafka: Kafka,
    backend: StoreBackend,
    clock: Clock,
    metrics: StageMetrics,
    credentials: Credentials | None = None,
) -> Coordinated:
    """Everything that a replica needs to follow the control log.

    Args:
        plan: the stage.
        settings: with ``coordinator`` set.
        kafka: the cluster.
        backend: the replica's stores.
        clock: time.
        metrics: of the replica.
        credentials: shown to coordinator and state managers.

    Raises:
        SettingsError: its hand-overs can't be traced as the settings say.
    """
    replica, directory = settings.replica, settings.state_dir / plan.app / settings.replica
    holders: dict[str, str] = {}
    spawn, rebuild = Background(replica), Background(f"{replica}-rebuild")
    about = {"towpath.query": plan.app, "towpath.stage": plan.name, "service.instance.id": replica}
    spans = start_tracing(settings.traces_url, clock, "towpath-stage", **about)
    coordinator = CoordinatorClient(settings.coordinator or "", credentials=credentials)
    client = GrpcStateClient(lambda layer: holders.get(layer.holder, layer.address), credentials)

    def close() -> None:
        spawn.close()
        rebuild.close()
        client.close()
        coordinator.close()

    return wire(
        plan,
        settings,
        kafka,
        backend,
        clock,
        metrics,
        Lines(
            Identity(plan.name, replica, uuid.uuid4().hex),
            client,
            HttpLink(lambda beat: coordinator.heartbeat(plan.name, replica, beat)),
            holders,
            lambda: state_address(directory),
            spawn,
            rebuild,
            spawn.is_closed,
            time.sleep,
            close,
            spans,
        ),
    )


@dataclass(frozen=True)
class Lines:
    """How a replica reaches others, and works beside its loop.

    Attributes:
        identity: who it is.
        client: asks state managers.
        link: to the coordinator.
        holders: name → address of its state manager; kept up to date by the replica.
        state_address: address of this replica's state manager; empty: it has none.
        spawn: runs what takes long.
        rebuild: makes anew from the changelog what lost holders had: as long as a full restore for each of their tasks,
            so apart from ``spawn``, on which other moves wait.
        abandoned: whether what still runs there is in vain.
        pause: waits that many seconds, beside the loop.
        close: lets go of what still runs there, and of the lines.
        spans: where spans of hand-overs go.
    """

    identity: Identity
    client: StateClient
    link: Link
    holders: dict[str, str]
    state_address: Callable[[], str]
    spawn: Spawn
    rebuild: Spawn
    abandoned: Callable[[], bool]
    pause: Callable[[float], object]
    close: Callable[[], None]
    spans: Spans = NO_SPANS


def wire(
    plan: StagePlan,
    settings: StageSettings,
    kafka: Kafka,
    backend: StoreBackend,
    clock: Clock,
    metrics: StageMetrics,
    lines: Lines,
) -> Coordinated:
    """The same over given lines."""
    client, spawn, abandoned, pause = lines.client, lines.spawn, lines.abandoned, lines.pause
    ownership = Ownership(plan, settings, kafka, backend, clock, metrics, abandoned, _say_nothing)
    opening = Opening(plan, settings, kafka, backend, clock, client, ownership, lines.rebuild, abandoned, pause)
    copies = CopyMaker(client, backend, clock, spawn, opening.make_job, opening.top_up, opening.read)
    opener = Opener(plan, backend, opening, spawn)
    hand_overs = HandOvers(metrics.hand_overs, lines.spans, clock, settings.replica)
    preparations = Preparations(plan.name, opening, client, copies, spawn, opener.hold, clock, hand_overs)
    return Coordinated(
        lines.identity,
        ControlReader(kafka, plan.app, f"{settings.replica}-control", clock, spawn),
        Arrivals(settings.replica, opener, client, preparations, clock, hand_overs),
        lines.link,
        clock,
        hand_overs=hand_overs,
        metrics=metrics,
        holders=lines.holders,
        state_address=lines.state_address,
        drain_s=settings.drain_s,
        on_close=lines.close,
    )


def _say_nothing(what: str) -> None:
    """A restore beside the loop is no work of the loop."""
