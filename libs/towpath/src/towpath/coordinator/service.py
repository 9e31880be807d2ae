"""Wires a coordinator to the world: settings, signals, Kafka, HTTP; runs until SIGTERM."""

from __future__ import annotations

import json
import os

import structlog

from statemgr.addresses import coordinator_url
from statemgr.clock import Clock, SystemClock
from statemgr.errors import StateError, StopRequestedError
from statemgr.kafka.ports import Kafka
from statemgr.security import Credentials, credentials_to_listen
from towpath.coordinator.coordinator import Coordinator
from towpath.coordinator.facts import StageFacts
from towpath.coordinator.http import application
from towpath.coordinator.scaler import Replicas, Scaler
from towpath.coordinator.settings import CoordinatorSettings
from towpath.coordinator.topics import await_topics
from towpath.errors import SettingsError, TowpathError
from towpath.outline import Outline, find_outline
from towpath.stage.connect import connect
from towpath.stage.exits import EXIT_OK, EXIT_STOPPED, survive
from towpath.stage.health import HttpServer
from towpath.stage.logs import configure_logging
from towpath.stage.signals import StopSignals
from towpath.tracing import Spans, start_tracing

log = structlog.get_logger()

BUSY_TURN_S = 0.01
"""Between two turns while something moves."""

IDLE_TURN_S = 0.05
"""The same at rest: whatever begins then waits for it once, a sixtieth of a replica's silence of 3 s."""


def run_coordinator(settings: CoordinatorSettings) -> int:
    """Run a coordinator until it is asked to stop.

    Returns:
        Exit status: 0 after SIGTERM or SIGINT, 1 when an operator's decision is needed, 70 after a crash.

    Raises:
        SettingsError: the query can't be loaded, the properties file, the HTTP address or the log's format is wrong,
            traces can't be made, or Kubernetes can't be asked from here.
        SecurityError: credentials are wrong, or missing outside loopback.
    """
    pairs = [f"{name}={json.dumps(value)}" for name, value in settings.query_settings.items()]
    plan = find_outline(settings.query, pairs, settings.plans)
    replicas = _replicas(settings)
    configure_logging(query=plan.app, coordinator=settings.name)
    credentials = credentials_to_listen(settings.http_host, "the coordinator", os.environ, log)
    clock = SystemClock()
    about = {"towpath.query": plan.app, "service.instance.id": settings.name}
    spans = start_tracing(settings.traces_url, clock, "towpath-coordinator", **about)
    signals = StopSignals()
    return survive(lambda: _run(plan, settings, credentials, replicas, signals, clock, spans), signals.event.wait)


def _replicas(settings: CoordinatorSettings) -> Replicas | None:
    """The platform that is asked for replicas; None: none is."""
    if settings.scaler == "none":
        return None
    try:
        from towpath.coordinator.statefulsets import stateful_sets
    except ImportError as error:
        raise SettingsError(
            f"scaler=kubernetes needs the Kubernetes client: pip install 'towpath[kubernetes]' ({error})"
        ) from error
    return stateful_sets(settings.kubernetes_namespace, settings.kubernetes_name)


def _run(
    plan: Outline,
    settings: CoordinatorSettings,
    credentials: Credentials,
    replicas: Replicas | None,
    signals: StopSignals,
    clock: Clock,
    spans: Spans,
) -> int:
    kafka = connect(settings.bootstrap, settings.kafka_config)
    try:
        signals.at_work_on = lambda: "waiting for broker and topics"
        stages = _find_stages(plan, settings, kafka, signals)
        signals.at_work_on = lambda: "a turn of the coordinator"
        coordinator = Coordinator(
            plan.app, stages, kafka, clock, name=settings.name, limits=settings.limits, spans=spans
        )
        scaler = None if replicas is None else Scaler(coordinator, replicas, clock)
        _serve(coordinator, scaler, settings, credentials, signals, clock)
    except StopRequestedError as stopped:
        log.info(str(stopped))
    except (StateError, TowpathError) as error:
        log.error("stopped: " + str(error), kind=type(error).__name__)  # noqa: TRY400 - one line, by intent
        return EXIT_STOPPED
    log.info("stopped cleanly; replicas go on by the log")
    return EXIT_OK


def _find_stages(plan: Outline, settings: CoordinatorSettings, kafka: Kafka, signals: StopSignals) -> list[StageFacts]:
    admin = kafka.admin()
    try:
        return await_topics(
            admin,
            plan,
            replication=settings.replication,
            wait_s=settings.wait_s,
            stop=signals.event.is_set,
            pause=signals.event.wait,
        )
    finally:
        admin.close()


def _serve(
    coordinator: Coordinator,
    scaler: Scaler | None,
    settings: CoordinatorSettings,
    credentials: Credentials,
    signals: StopSignals,
    clock: Clock,
) -> None:
    app = application(coordinator, clock, settings.stall_s)
    server = HttpServer(app, settings.http_host, settings.http_port, credentials)
    port = _listen(server, settings)
    url = coordinator_url(f"{settings.http_host}:{port}", tls=credentials.tls is not None)
    log.info("starting", http=url, tasks={stage.name: stage.partitions for stage in coordinator.stages.values()})
    try:
        _begin(coordinator, signals)
        if scaler is not None:
            scaler.start()
        _take_turns(coordinator, scaler, signals)
    finally:
        if scaler is not None:
            scaler.close()
        server.stop()
        coordinator.close()


def _take_turns(coordinator: Coordinator, scaler: Scaler | None, signals: StopSignals) -> None:
    while not signals.event.wait(BUSY_TURN_S if coordinator.busy else IDLE_TURN_S):
        if scaler is not None and scaler.failure is not None:
            raise scaler.failure
        coordinator.tick()


def _listen(server: HttpServer, settings: CoordinatorSettings) -> int:
    try:
        return server.start()
    except SettingsError as error:
        raise SettingsError(
            f"the coordinator can't listen on {settings.http_host}:{settings.http_port}: the address is taken or not "
            "ours; choose another with --http-port (0 takes a free one) or --http-host"
        ) from error


def _begin(coordinator: Coordinator, signals: StopSignals) -> None:
    """Lead at once if possible; else the turns try again."""
    coordinator.begin(signals.event.is_set)
    if not coordinator.leading:
        log.warning("does not lead yet, tried again", cause=coordinator.problem)
