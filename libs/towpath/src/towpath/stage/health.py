"""Health, metrics and tasks of a replica over HTTP.

``GET /health`` is 200 while the replica lives and moves, 503 with the reason once a piece of work exceeds its
deadline; ``/ready`` is 200 while it is running; ``/metrics`` is for Prometheus; ``/tasks`` lists owned tasks.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import structlog
import uvicorn
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from statemgr.clock import Clock
from statemgr.security import Credentials, check_listening
from statemgr.security.tls import server_context
from towpath.errors import SettingsError
from towpath.guard import Guard
from towpath.peer import PeerProtocol
from towpath.stage.metrics import StageMetrics
from towpath.stage.phases import Phase

if TYPE_CHECKING:  # the coordinator serves HTTP, too, and runs without Polars
    from towpath.stage.replica import Replica

log = structlog.get_logger()

START_TIMEOUT_S = 10.0
"""Binding a port takes milliseconds; ten seconds means that something is badly wrong."""


def stalled(replica: Replica, clock: Clock, stall_s: float) -> str | None:
    """What the replica is stuck in, or None.

    A restore that makes progress is not stuck, however long it takes; trying again and again to become owner is.
    """
    if replica.phase in {Phase.STOPPED, Phase.FAILED}:
        return None
    work, now_s = replica.work, clock.monotonic_s()
    since_s, what = work.since_s, work.what
    if replica.lost_s is not None and replica.phase is Phase.FENCING:
        since_s, what = replica.lost_s, f"without ownership, now {work.what},"
    if now_s - since_s < stall_s:
        return None
    return f"{what} for {now_s - since_s:.0f} s (limit {stall_s:g} s)"


def application(replica: Replica, metrics: StageMetrics, clock: Clock, stall_s: float) -> Starlette:
    """The HTTP application of a replica."""

    async def health(_: Request) -> Response:
        problem = stalled(replica, clock, stall_s)
        body = {"phase": replica.phase, "problem": problem}
        return JSONResponse(body, status_code=503 if problem or replica.phase is Phase.FAILED else 200)

    async def ready(_: Request) -> Response:
        running = replica.phase is Phase.RUNNING
        return JSONResponse(
            {"phase": replica.phase, "idle": running and not replica.owned}, status_code=200 if running else 503
        )

    async def tasks(_: Request) -> Response:
        return JSONResponse(
            [
                {"stage": task.id.stage, "partition": task.id.partition, "epoch": task.epoch, "offsets": task.positions}
                for task in list(replica.owned.values())
            ]
        )

    async def scrape(_: Request) -> Response:
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/ready", ready),
            Route("/tasks", tasks),
            Route("/metrics", scrape),
        ]
    )


class HttpServer:
    """Serves an application from a thread of its own, so that a busy stage still answers.

    Args:
        app: the application; it sees no request that lacks the credentials, but those of probes.
        host: address to listen at.
        port: port to listen at; 0: a free one.
        credentials: what callers have to show.

    Raises:
        SecurityError: others reach it there and need show nothing, or TLS can't be set up.
    """

    def __init__(self, app: Starlette, host: str, port: int, credentials: Credentials | None = None) -> None:
        credentials = credentials or Credentials()
        check_listening(host, credentials, "this service")
        context = None if credentials.tls is None else server_context(credentials.tls)
        config = uvicorn.Config(
            Guard(app, credentials, host),
            host=host,
            port=port,
            log_level="critical",
            lifespan="off",
            http=PeerProtocol,
            ssl_context_factory=None if context is None else lambda *_: context,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)
        self._host = host
        self._port = port

    def start(self) -> int:
        """Start serving.

        Returns:
            The port.

        Raises:
            SettingsError: the address can't be bound.
        """
        self._thread.start()
        waited = threading.Event()
        for _ in range(int(START_TIMEOUT_S / 0.01)):
            if self._server.started:
                return int(self._server.servers[0].sockets[0].getsockname()[1])
            if not self._thread.is_alive():
                break
            waited.wait(0.01)
        raise SettingsError(
            f"health and metrics can't be served on {self._host}:{self._port}: the address is taken or not ours; "
            "choose another with --http-port (0 takes a free one)"
        )

    def stop(self) -> None:
        """Stop serving; does not wait for open connections."""
        self._server.should_exit = True
        self._server.force_exit = True

    def _serve(self) -> None:
        try:
            self._server.run()
        except SystemExit:
            log.debug("http server could not start")
