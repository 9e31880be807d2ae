"""The state manager beside a Faust worker: serves the copies in its directory, also when the worker has ended.

It needs no Kafka. Whether a copy may be used, the asker decides from what the copy says of itself and from the
changelog (:mod:`statemgr.faust.decide`). One thing a state manager refuses: an asker for whose partition this
worker's own, later tenure has begun.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from statemgr.clock import Clock, SystemClock
from statemgr.control.view import ControlView
from statemgr.errors import HolderUnavailableError, StaleRequestError
from statemgr.faust import slots
from statemgr.faust.limits import LINGER_S, QUIET_S, TIDY_S
from statemgr.logs import configure_logging
from statemgr.migration.ports import Address
from statemgr.security import credentials_to_listen
from statemgr.sidecar.endpoint import Endpoint, reachable_host, remove_endpoint, write_endpoint
from statemgr.sidecar.process import StopSignals
from statemgr.sidecar.readers import ReaderBackend
from statemgr.sidecar.rocks_readers import RocksReaders
from statemgr.sidecar.server import WHAT, StateServer
from statemgr.sidecar.service import StateService
from statemgr.store.rocks_options import raise_file_limit

log = structlog.get_logger()

GRACE_S = 0.5
"""For requests under way at the end."""

LOOK_S = 0.1
"""Between two looks for signals, the worker and the command."""


class CopyService(StateService):
    """Answers for every copy in a directory, whoever asks, unless the asker's tenure is over.

    Args:
        readers: the copies.
        clock: time.
        name: of the holder.
    """

    def __init__(self, readers: ReaderBackend, clock: Clock, name: str) -> None:
        super().__init__(readers, ControlView, clock, name, pause=time.sleep)
        self._copies_here = readers
        self._time = clock
        self.asked_s = float("-inf")

    def check(self, address: Address) -> None:
        """Refuse an asker who means another holder, or whose partition has come back here since it took it over.

        Raises:
            HolderUnavailableError: another holder is meant.
            StaleRequestError: a later generation than the asker's has given the partition to this worker.
        """
        if address.layer.holder != self.name:
            raise HolderUnavailableError(f"this is the state manager of {self.name}, not of {address.layer.holder}")
        self.asked_s = self._time.monotonic_s()
        newest = max(self._copies_here.existing(address.task), default=0)
        if newest > max(address.target, address.layer.epoch):
            raise StaleRequestError(
                f"generation {address.target} of {address.task} is over: this worker owns it since {newest}",
                later=False,
            )


@dataclass(frozen=True)
class HolderSettings:
    """What a state manager is told.

    Attributes:
        directory: the worker's directory of stores.
        host: address to listen at.
        port: port to listen at; 0: a free one.
        advertise: host under which others reach it; empty: ``host``, or this machine's name if that is any.
        absent_s: a worker that has ended without stopping may be missed by its group only after so long (its session
            time-out); copies are kept ready until then, and as long as somebody asks for them.
        quiet_s: when nobody has asked for so long, what is here is not needed any more.
        linger_s: longest time without a worker.
    """

    directory: Path
    host: str = "127.0.0.1"
    port: int = 0
    advertise: str = ""
    absent_s: float = 90.0
    quiet_s: float = QUIET_S
    linger_s: float = LINGER_S

    @property
    def reachable_host(self) -> str:
        """Host under which others reach it."""
        return reachable_host(self.host, self.advertise)


def hold(settings: HolderSettings, command: Sequence[str] = ()) -> int:
    """Serve a worker's copies until the worker has ended and nobody needs them any more.

    Args:
        settings: see there.
        command: starts the worker, which gets the first signal; empty: it is started by others.

    Returns:
        The exit status of the command; 0 without one.

    Raises:
        SecurityError: credentials are missing where others reach the address, or can't be used.
        OSError: the directory can't be used, or the address is taken.
        ValueError: the environment asks for a format of the log that there is not.
    """
    configure_logging(directory=str(settings.directory))
    settings.directory.mkdir(parents=True, exist_ok=True)
    return _Holder(settings).run(command)


class _Holder:
    def __init__(self, settings: HolderSettings) -> None:
        raise_file_limit()
        credentials = credentials_to_listen(settings.host, WHAT, os.environ, log)
        self._settings = settings
        self._signals = StopSignals()
        self._passed_on = False
        self._clock = SystemClock()
        self._readers = RocksReaders(settings.directory)
        self._service = CopyService(self._readers, self._clock, slots.holder_of(settings.directory))
        self._server = StateServer(self._service, settings.host, settings.port, credentials)

    def run(self, command: Sequence[str]) -> int:
        endpoint = Endpoint(self._settings.reachable_host, self._server.port, os.getpid())
        self._server.start()
        self._server.set_ready(True)
        write_endpoint(self._settings.directory, endpoint)
        log.info("serving", address=endpoint.address)
        try:
            child = subprocess.Popen(command) if command else None  # noqa: S603 - it is what the caller asks for
            self._serve(child)
        finally:
            remove_endpoint(self._settings.directory, endpoint)
            self._server.stop(GRACE_S)
            self._service.close()
        log.info("stopped cleanly")
        return child.wait() if child is not None else 0

    def _serve(self, child: subprocess.Popen[bytes] | None) -> None:
        alone_since_s: float | None = None
        tidied_s = self._clock.monotonic_s()
        while True:
            now_s = self._clock.monotonic_s()
            if self._works(child):
                alone_since_s = None
            elif alone_since_s is None:
                alone_since_s = now_s
                log.info("the worker has ended", in_order=slots.has_left(self._settings.directory))
            if alone_since_s is not None and self._may_go(now_s, alone_since_s):
                return
            if now_s - tidied_s >= TIDY_S:
                tidied_s = now_s
                self._service.tidy()
            time.sleep(LOOK_S)

    def _works(self, child: subprocess.Popen[bytes] | None) -> bool:
        """Whether there is a worker that goes on; a signal is passed on to the one that was started here."""
        if child is not None:
            if self._signals.asked.is_set() and not self._passed_on:
                self._passed_on = True
                child.terminate()
            return child.poll() is None
        return not self._signals.asked.is_set() and slots.worker_lives(self._settings.directory)

    def _may_go(self, now_s: float, alone_since_s: float) -> bool:
        left = slots.has_left(self._settings.directory)
        quiet_s = self._settings.quiet_s if left else max(self._settings.quiet_s, self._settings.absent_s)
        quiet = now_s - max(alone_since_s, self._service.asked_s) >= quiet_s
        return quiet or now_s - alone_since_s >= self._settings.linger_s
