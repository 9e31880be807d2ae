"""Wires a coordinator to the world: settings, signals, Kafka, HTTP; runs until SIGTERM."""

from __future__ import annotations

import json

import structlog

from statemgr.clock import SystemClock
from statemgr.errors import StateError, StopRequestedError
from statemgr.kafka.ports import Kafka
from towpath.coordinator.coordinator import Coordinator
from towpath.coordinator.facts import StageFacts
from towpath.coordinator.http import application
from towpath.coordinator.settings import CoordinatorSettings
from towpath.coordinator.topics import await_topics
from towpath.errors import SettingsError, TowpathError
from towpath.outline import Outline, find_outline
from towpath.stage.connect import connect
from towpath.stage.exits import EXIT_OK, EXIT_STOPPED, survive
from towpath.stage.health import HttpServer
from towpath.stage.logs import configure_logging
from towpath.stage.signals import StopSignals

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
        SettingsError: the query can't be loaded, or the properties file or the HTTP address is wrong.
    """
    pairs = [f"{name}={json.dumps(value)}" for name, value in settings.query_settings.items()]
    plan = find_outline(settings.query, pairs, settings.plans)
    configure_logging(app=plan.app, coordinator=settings.name)
    signals = StopSignals()
    return survive(lambda: _run(plan, settings, signals), signals.event.wait)


def _run(plan: Outline, settings: CoordinatorSettings, signals: StopSignals) -> int:
    kafka = connect(settings.bootstrap, settings.kafka_config)
    try:
        signals.at_work_on = lambda: "waiting for broker and topics"
        stages = _find_stages(plan, settings, kafka, signals)
        signals.at_work_on = lambda: "a turn of the coordinator"
        _serve(plan, stages, settings, kafka, signals)
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
    plan: Outline, stages: list[StageFacts], settings: CoordinatorSettings, kafka: Kafka, signals: StopSignals
) -> None:
    clock = SystemClock()
    coordinator = Coordinator(plan.app, stages, kafka, clock, name=settings.name, limits=settings.limits)
    server = HttpServer(application(coordinator, clock, settings.stall_s), settings.http_host, settings.http_port)
    port = _listen(server, settings)
    log.info(
        "starting", http=f"http://{settings.http_host}:{port}", tasks={stage.name: stage.partitions for stage in stages}
    )
    try:
        _begin(coordinator, signals)
        while not signals.event.wait(BUSY_TURN_S if coordinator.busy else IDLE_TURN_S):
            coordinator.tick()
    finally:
        server.stop()
        coordinator.close()


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
