"""Wires a state manager to the world: stores, control log, network, coordinator; runs until SIGTERM."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import structlog
from confluent_kafka import KafkaException

from statemgr.addresses import coordinator_url, parse_servers
from statemgr.clock import SystemClock
from statemgr.control.log import ControlReader
from statemgr.errors import StateError
from statemgr.kafka.confluent import ConfluentKafka
from statemgr.kafka.properties import read_properties
from statemgr.logs import configure_logging
from statemgr.security import Credentials, credentials_to_listen
from statemgr.security.post import Poster
from statemgr.sidecar.control_tail import ControlTail
from statemgr.sidecar.endpoint import Endpoint, reachable_host, remove_endpoint, write_endpoint
from statemgr.sidecar.heartbeat import TIMEOUT_S, Heartbeats
from statemgr.sidecar.process import StopSignals
from statemgr.sidecar.rocks_readers import RocksReaders
from statemgr.sidecar.server import WHAT, StateServer
from statemgr.sidecar.service import StateService
from statemgr.sidecar.superseded import Copy
from statemgr.store.rocks_options import raise_file_limit

log = structlog.get_logger()

TIDY_S = 1.0
"""Between two looks for copies to close or delete; news of the control log come at once."""

GRACE_S = 0.5
"""For requests under way at the end: two deadlines of a look-up."""

OWN_S = 2.0
"""How long the copies of tasks are kept that still are this replica's own. By then the coordinator has given them to
others, if there are any: it hears at once that a replica has ended. Else they wait for the replica to come back."""

QUIET_S = 10.0
"""An owner that lacks state asks for it all the time. One that has not asked for that long is gone itself, or reads the
changelog: where everybody is stopped at once, nobody waits for it."""

LOOK_S = 0.1
"""Between two looks whether a signal has come."""

JOIN_S = 2.0
"""For the thread that reads the control log; a silent broker may hold it up, which is of no matter any more."""


class ServeError(StateError, ValueError):
    """A state manager can't be started as it was told to."""


@dataclass(frozen=True)
class ServeSettings:
    """What a state manager is told.

    Attributes:
        app: the application.
        replica: the replica's name.
        directory: the replica's directory.
        bootstrap: Kafka's addresses.
        kafka_config: file of further Kafka client properties.
        host: address to listen at.
        port: port to listen at; 0: a free one.
        advertise: host under which others reach it; empty: ``host``, or this machine's name if that is any.
        coordinator: URL of the coordinator, or its host:port; empty: there is none.
        linger_s: after SIGTERM, longest time to serve copies that others may still need; 0: leave at once.
    """

    app: str
    replica: str
    directory: Path
    bootstrap: str
    kafka_config: Path | None = None
    host: str = "127.0.0.1"
    port: int = 0
    advertise: str = ""
    coordinator: str = ""
    linger_s: float = 0.0

    @property
    def reachable_host(self) -> str:
        """Host under which others reach it."""
        return reachable_host(self.host, self.advertise)


def serve(settings: ServeSettings) -> None:
    """Serve a replica's copies until SIGTERM.

    Raises:
        ServeError: directory, addresses, Kafka properties, the coordinator's URL or the log's format are wrong.
        SecurityError: credentials are missing or can't be used.
        CodecError: the control log can't be understood (R19).
    """
    try:
        configure_logging(query=settings.app, replica=settings.replica)
    except ValueError as error:
        raise ServeError(str(error)) from error
    signals = StopSignals()
    credentials = credentials_to_listen(settings.host, WHAT, os.environ, log)
    url = _url(settings.coordinator, credentials)
    kafka = _kafka(settings)
    _StateManager(settings, kafka, _directory(settings.directory), url, credentials, signals).run()


class _StateManager:
    """One run."""

    def __init__(
        self,
        settings: ServeSettings,
        kafka: ConfluentKafka,
        directory: Path,
        coordinator: str,
        credentials: Credentials,
        signals: StopSignals,
    ) -> None:
        raise_file_limit()
        clock = SystemClock()
        self._settings = settings
        self._directory = directory
        self._asked = signals.asked
        self._coordinator = coordinator
        self._poster = Poster(credentials, TIMEOUT_S)
        self._over = threading.Event()
        self._news = threading.Event()
        reader = ControlReader(kafka, settings.app, f"{settings.app}.{settings.replica}.statemgr", clock)
        self._tail = ControlTail(reader, clock, self._news.set, self._over)
        self._service = StateService(
            RocksReaders(directory),
            lambda: self._tail.view,
            clock,
            settings.replica,
            caught_up_s=lambda: self._tail.caught_up_s,
            pause=time.sleep,
        )
        self._server = _listen(self._service, settings, credentials)

    def run(self) -> None:
        """Serve until asked to stop, and then as long as it may be needed."""
        endpoint = Endpoint(self._settings.reachable_host, self._server.port, os.getpid())
        self._server.start()
        self._tail.start()
        write_endpoint(self._directory, endpoint)
        if self._coordinator:
            beats = Heartbeats(self._coordinator, self._settings.replica, endpoint.address, self._poster)
            beats.start(self._over)
        log.info("serving", address=endpoint.address, directory=str(self._directory))
        try:
            self._until_asked()
            self._linger()
        finally:
            self._leave(endpoint)
        log.info("stopped cleanly")

    def _until_asked(self) -> None:
        while not self._asked.is_set():
            self._tidy()
            self._wait()

    def _linger(self) -> None:
        """Go on while others may need what is here."""
        begin_s = time.monotonic()
        end_s = begin_s + self._settings.linger_s
        said = False
        while time.monotonic() < end_s:
            self._tidy()
            needed = self._needed(begin_s)
            if not needed:
                return
            if not said:
                said = True
                names = ", ".join(f"{task}@{epoch}" for task, epoch in needed)
                log.info(f"staying up to {self._settings.linger_s:g} s: others may need {names}")
            self._wait()

    def _needed(self, begin_s: float) -> list[Copy]:
        now_s = time.monotonic()
        since_s = now_s - QUIET_S if now_s - begin_s >= QUIET_S else float("-inf")
        return self._service.needed(own=now_s - begin_s < OWN_S, asked_since_s=since_s)

    def _wait(self) -> None:
        """Until the control log says something new, or a signal comes, or it is time to tidy."""
        asked = self._asked.is_set()
        end_s = time.monotonic() + TIDY_S
        while not self._news.wait(LOOK_S) and time.monotonic() < end_s and self._asked.is_set() == asked:
            pass
        self._news.clear()

    def _tidy(self) -> None:
        if self._tail.failure is not None:
            raise self._tail.failure
        self._server.set_ready(self._tail.caught_up_s is not None)
        for task, epoch in self._service.tidy():
            log.info("deleted a superseded copy", copy=f"{task}@{epoch}")

    def _leave(self, endpoint: Endpoint) -> None:
        self._over.set()
        remove_endpoint(self._directory, endpoint)
        self._server.stop(GRACE_S)
        self._tail.join(JOIN_S)
        self._service.close()


def _kafka(settings: ServeSettings) -> ConfluentKafka:
    origin = f" (from {settings.kafka_config})" if settings.kafka_config is not None else ""
    try:
        parse_servers(settings.bootstrap)
        kafka = ConfluentKafka(settings.bootstrap, read_properties(settings.kafka_config))
        kafka.admin()
    except KafkaException as error:
        raise ServeError(f"Kafka client settings{origin} are refused: {error.args[0].str()}") from error
    except ValueError as error:
        raise ServeError(str(error)) from error
    return kafka


def _directory(directory: Path) -> Path:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ServeError(f"{directory} can't be used: {error.strerror}; name the replica's --state-dir") from error
    return directory


def _listen(service: StateService, settings: ServeSettings, credentials: Credentials) -> StateServer:
    try:
        return StateServer(service, settings.host, settings.port, credentials)
    except OSError as error:
        service.close()
        raise ServeError(f"{error}; name another --host or --port") from error


def _url(coordinator: str, credentials: Credentials) -> str:
    url = coordinator_url(coordinator, tls=credentials.tls is not None)
    parts = urlsplit(url)
    if url and (parts.scheme not in {"http", "https"} or not parts.netloc):
        raise ServeError(f"--coordinator {coordinator}: expected a URL, e.g. http://127.0.0.1:8080")
    return url
