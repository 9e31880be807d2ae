"""A worker's state manager: found if it runs already, else started, as a process that outlives the worker."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from statemgr.errors import SecurityError
from statemgr.security import Credentials
from statemgr.sidecar.endpoint import read_endpoint
from statemgr.sidecar.secured import open_channel
from statemgr.sidecar.server import SERVICE

log = logging.getLogger(__name__)

LOG_FILE = "statemgr.log"
"""In the worker's directory: what its state manager says."""

ANSWER_S = 1.0
"""For the answer to the question whether it serves."""

RESTART_S = 5.0
"""Between two starts of one that ends by itself, which costs a second of a processor each."""


@dataclass(frozen=True)
class Manners:
    """How a worker comes to its state manager.

    Attributes:
        host: address that it listens at.
        advertise: host under which others reach it; empty: ``host``, or this machine's name if that is any.
        external: it is started by others, and only looked for here.
        absent_s: see :class:`statemgr.faust.holder.HolderSettings`.
    """

    host: str = "127.0.0.1"
    advertise: str = ""
    external: bool = False
    absent_s: float = 90.0


class Beside:
    """The state manager of a directory.

    Args:
        directory: the worker's directory of stores.
        manners: see there.
        credentials: shown to it.
        monotonic_s: time.
    """

    def __init__(
        self,
        directory: Path,
        manners: Manners,
        credentials: Credentials | None = None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._manners = manners
        self._credentials = credentials or Credentials()
        self._monotonic_s = monotonic_s
        self._started: subprocess.Popen[bytes] | None = None
        self._started_s = float("-inf")

    def ensure(self) -> str:
        """Its address, if it serves; one that does not is started. Empty: there is none yet. May take a second."""
        endpoint = read_endpoint(self._directory)
        if endpoint is not None and serves(endpoint.address, self._credentials):
            return endpoint.address
        if not self._manners.external and self._may_start():
            self._start()
        return ""

    def _may_start(self) -> bool:
        """Whether none that was started here runs, nor was started just now."""
        if self._started is not None and self._started.poll() is None:
            return False
        return self._monotonic_s() - self._started_s >= RESTART_S

    def _start(self) -> None:
        manners = self._manners
        command = [sys.executable, "-m", "statemgr.cli", "faust", "--state-dir", str(self._directory)]
        command += ["--host", manners.host, "--advertise", manners.advertise, "--absent-s", f"{manners.absent_s:g}"]
        with (self._directory / LOG_FILE).open("wb") as output:
            # A session of its own: a signal to the worker's terminal or group must not end it.
            self._started = subprocess.Popen(  # noqa: S603 - this interpreter and this library
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
        self._started_s = self._monotonic_s()
        log.info("started a state manager for %s, process %d", self._directory, self._started.pid)


def serves(address: str, credentials: Credentials) -> bool:
    """Whether a state manager answers at an address; its health needs no token, but with TLS a certificate."""
    try:
        channel = open_channel(address, credentials)
    except SecurityError:  # certificates that are just being replaced
        return False
    with channel:
        stub = health_pb2_grpc.HealthStub(channel)
        try:
            answer = stub.Check(health_pb2.HealthCheckRequest(service=SERVICE), timeout=ANSWER_S)
        except grpc.RpcError:
            return False
    return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
