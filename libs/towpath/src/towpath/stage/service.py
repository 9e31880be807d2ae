"""Wires a replica to the world: settings, signals, Kafka, stores, HTTP; runs until SIGTERM."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import structlog

from statemgr.clock import SystemClock
from statemgr.errors import StateError
from statemgr.security import Credentials, credentials_to_listen
from statemgr.store import MemoryBackend, RocksBackend, RocksSettings, StoreBackend
from towpath.errors import SettingsError, TowpathError
from towpath.query.loading import load_query
from towpath.query.plan import StagePlan
from towpath.stage.codecs import codecs_of
from towpath.stage.connect import connect
from towpath.stage.exits import EXIT_OK, EXIT_STOPPED, survive
from towpath.stage.health import HttpServer, application, stalled
from towpath.stage.joining import join
from towpath.stage.logs import configure_logging
from towpath.stage.metrics import StageMetrics
from towpath.stage.outside import check_outside
from towpath.stage.processor import FrameProcessor
from towpath.stage.replica import Controls, Replica
from towpath.stage.settings import StageSettings
from towpath.stage.signals import StopSignals
from towpath.stage.warm_up import warm_up
from towpath.stage.work import Work

log = structlog.get_logger()

MIB = 1024 * 1024

WRITE_BUFFER_SHARE = 4
"""Memtables may take a quarter of the memory; the rest caches blocks for reading."""


def run_stage(settings: StageSettings) -> int:
    """Run one replica until it is asked to stop.

    Returns:
        Exit status: 0 after SIGTERM or SIGINT, 1 when an operator's decision is needed, 70 after a crash.

    Raises:
        QueryError: the query can't be loaded or has no such stage.
        SettingsError: the properties file, the HTTP address or the log's format is wrong, or a directory of files can't
            be written.
        SecurityError: credentials are wrong, or missing outside loopback.
    """
    query = load_query(settings.query, settings.query_settings)
    configure_logging(query=query.app, stage=settings.stage, replica=settings.replica)
    plan = query.stage(settings.stage)
    check_outside(plan)
    credentials = credentials_to_listen(settings.http_host, "the stage", os.environ, log)
    signals = StopSignals()
    return survive(lambda: _run(plan, settings, credentials, signals), signals.event.wait)


def _run(plan: StagePlan, settings: StageSettings, credentials: Credentials, signals: StopSignals) -> int:
    kafka = connect(settings.bootstrap, settings.kafka_config)
    clock = SystemClock()
    stop = signals.event
    codecs = codecs_of(plan, settings, clock)
    metrics = StageMetrics(plan.name, settings.replica)
    backend = open_backend(plan, settings, stop.is_set)
    coordinated = None
    if settings.coordinator:
        coordinated = join(plan, settings, kafka, backend, clock, metrics, credentials)
    replica = Replica(
        plan,
        settings,
        kafka,
        backend,
        clock,
        metrics,
        Controls(stop.is_set, stop.wait, signals.draining, time.sleep),
        make_processor=partial(FrameProcessor, codecs=codecs),
        coordinated=coordinated,
    )
    signals.at_work_on = lambda: replica.work.what
    health = application(replica, metrics, clock, settings.stall_s)
    server = HttpServer(health, settings.http_host, settings.http_port, credentials)
    port = server.start()
    if coordinated is not None:
        coordinated.http_address = f"{settings.http_host}:{port}"
    tasks_of = settings.coordinator or f"{settings.replica_index}/{settings.replica_count}"
    log.info("starting", tasks_of=tasks_of, http=port)
    watchdog = threading.Thread(target=_watch, args=(replica, clock, settings.stall_s, stop), daemon=True)
    watchdog.start()
    warm_up(plan, settings)
    try:
        if codecs.registry is not None:
            replica.work = Work(clock.monotonic_s(), "waiting for the schema registry")
        codecs.prepare(settings.wait_s, clock, stop.is_set, stop.wait)
        replica.run()
    except (StateError, TowpathError) as error:
        log.error("stopped: " + str(error), kind=type(error).__name__)  # noqa: TRY400 - one line, by intent
        return EXIT_STOPPED
    finally:
        server.stop()
    log.info("stopped cleanly")
    return EXIT_OK


def replica_directory(state_dir: Path, app: str, replica: str) -> Path:
    """Directory of a replica's stores, apart from those of other applications and replicas; made if need be.

    Raises:
        SettingsError: it can't be written.
    """
    directory = state_dir / app / replica
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SettingsError(
            f"stores can't be kept in {state_dir}: {error.strerror}; name another directory with --state-dir"
        ) from error
    return directory


def open_backend(plan: StagePlan, settings: StageSettings, stop: Callable[[], bool]) -> StoreBackend:
    """The stores of a replica: a directory of its own, so that two replicas never share a store."""
    if not plan.stateful or (settings.backend or plan.backend) == "memory":
        return MemoryBackend()
    budget = settings.memory_mb * MIB
    return RocksBackend(
        replica_directory(settings.state_dir, plan.app, settings.replica),
        RocksSettings(cache_bytes=budget, write_buffer_bytes=budget // WRITE_BUFFER_SHARE),
        stop=stop,
    )


def _watch(replica: Replica, clock: SystemClock, stall_s: float, stop: threading.Event) -> None:
    """Say once per stall what the replica is stuck in."""
    said: str | None = None
    while not stop.wait(1.0):
        problem = stalled(replica, clock, stall_s)
        if problem is not None and replica.work.what != said:
            log.error("stalled: " + problem)
            said = replica.work.what
        elif problem is None:
            said = None
