"""Talks to a coordinator: what replicas, supervisors and the command line use.

Every call has a deadline, and every failure is a :class:`~towpath.coordinator.errors.CoordinatorError` of one line.
"""

from __future__ import annotations

from typing import Any, Self, TypeVar

import httpx
from pydantic import TypeAdapter, ValidationError

from statemgr.addresses import coordinator_url
from statemgr.errors import SecurityError
from statemgr.security import Credentials
from statemgr.security.tls import client_context
from towpath.coordinator.errors import (
    CoordinatorError,
    CoordinatorUnavailableError,
    NotLeadingError,
    RefusedError,
)
from towpath.coordinator.messages import (
    Accepted,
    Heartbeat,
    HeartbeatAnswer,
    Message,
    MoveRequest,
    ScaleRequest,
)
from towpath.coordinator.statuses import Health, MigrationStatus, ReplicaStatus, TaskStatus, Topology

DEFAULT_ADDRESS = "127.0.0.1:7070"
"""Where a coordinator listens unless it is told otherwise."""

DEFAULT_URL = f"http://{DEFAULT_ADDRESS}"
"""The same without TLS."""

TIMEOUT_S = 1.0
"""A heartbeat's answer takes a millisecond or two; what is later is of no use, since the next one is on its way."""

REQUEST_TIMEOUT_S = 15.0
"""What operators ask for is answered when it is in force, for which the coordinator gives itself 12 s."""

_NO_PROXY: dict[str, httpx.BaseTransport | None] = {"all://": None}
"""A coordinator is a neighbour: proxies of the environment are for the world outside."""

T = TypeVar("T")


class CoordinatorClient:
    """One connection to a coordinator; usable from several threads.

    Args:
        url: where the coordinator listens; ``host:port`` alone means http.
        timeout_s: for heartbeats and views.
        credentials: shown to the coordinator.
        transport: for tests that serve the application without a socket.

    Raises:
        RefusedError: it is no URL.
        SecurityError: TLS is set up, and can't be used, or the URL is of a connection without.
    """

    def __init__(
        self,
        url: str = DEFAULT_URL,
        *,
        timeout_s: float = TIMEOUT_S,
        credentials: Credentials | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        credentials = credentials or Credentials()
        self.url = coordinator_url(url, tls=credentials.tls is not None).rstrip("/")
        headers = {"Authorization": credentials.authorization} if credentials.authorization else {}
        try:
            self._http = httpx.Client(
                base_url=self.url,
                timeout=timeout_s,
                headers=headers,
                transport=transport,
                mounts=_NO_PROXY,
                verify=True if credentials.tls is None else client_context(credentials.tls),
            )
        except SecurityError:
            raise
        except (httpx.InvalidURL, ValueError) as error:
            raise RefusedError(f"{url!r} is no URL of a coordinator: write it as {DEFAULT_URL} ({error})") from error

    def heartbeat(self, stage: str, replica: str, beat: Heartbeat) -> HeartbeatAnswer:
        """Say what a replica does.

        Raises:
            CoordinatorUnavailableError: no answer in time.
            CoordinatorError: another answer than expected.
        """
        return self._post(f"/replicas/{stage}/{replica}/heartbeat", beat, HeartbeatAnswer)

    def died(self, stage: str, replica: str) -> Accepted:
        """Say that a replica's process has ended."""
        return self._post(f"/replicas/{stage}/{replica}/died", None, Accepted)

    def scale(self, request: ScaleRequest) -> Accepted:
        """Ask for a number of replicas.

        Raises:
            RefusedError: there is no such stage.
            NotLeadingError: the coordinator does not lead.
        """
        return self._post("/scale", request, Accepted, REQUEST_TIMEOUT_S)

    def move(self, request: MoveRequest) -> Accepted:
        """Ask for a task's owner; errors as for :meth:`scale`."""
        return self._post("/move", request, Accepted, REQUEST_TIMEOUT_S)

    def topology(self) -> Topology:
        """Stages and replicas."""
        return self._get("/topology", Topology)

    def tasks(self) -> list[TaskStatus]:
        """Every task."""
        return self._get("/tasks", list[TaskStatus])

    def replicas(self) -> list[ReplicaStatus]:
        """Every replica."""
        return self._get("/replicas", list[ReplicaStatus])

    def migrations(self) -> list[MigrationStatus]:
        """Moves under way, then those that have ended lately."""
        return self._get("/migrations", list[MigrationStatus])

    def health(self) -> Health:
        """Whether the coordinator lives and leads; a red one answers, too."""
        return self._decode(self._send("GET", "/health", None, None, accept=(200, 503)), Health)

    def close(self) -> None:
        """Free the connection."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _get(self, path: str, kind: type[T]) -> T:
        return self._decode(self._send("GET", path, None, None), kind)

    def _post(
        self,
        path: str,
        body: Message | ScaleRequest | MoveRequest | None,
        kind: type[T],
        timeout_s: float | None = None,
    ) -> T:
        return self._decode(self._send("POST", path, body, timeout_s), kind)

    def _send(
        self,
        method: str,
        path: str,
        body: Message | ScaleRequest | MoveRequest | None,
        timeout_s: float | None,
        accept: tuple[int, ...] = (200,),
    ) -> httpx.Response:
        options: dict[str, Any] = {} if timeout_s is None else {"timeout": timeout_s}
        if body is not None:
            options |= {"content": body.model_dump_json(), "headers": {"Content-Type": "application/json"}}
        try:
            response = self._http.request(method, path, **options)
        except httpx.HTTPError as error:
            raise CoordinatorUnavailableError(
                f"no coordinator answers at {self.url} ({error or type(error).__name__}): start one with `towpath "
                "coordinator QUERY`, or name another with --coordinator or TOWPATH_COORDINATOR"
            ) from error
        if response.status_code not in accept:
            raise _error(response, f"{method} {self.url}{path}")
        return response

    def _decode(self, response: httpx.Response, kind: type[T]) -> T:
        try:
            return TypeAdapter(kind).validate_json(response.content)
        except ValidationError as error:
            raise CoordinatorError(
                f"{self.url} does not answer like a coordinator of this version: {error.error_count()} fields are "
                f"wrong, the first is {'.'.join(str(part) for part in error.errors()[0]['loc']) or 'the whole'}"
            ) from error


def _error(response: httpx.Response, what: str) -> CoordinatorError:
    """The reason that the coordinator gave."""
    try:
        detail = response.json()["detail"]
    except (ValueError, KeyError, TypeError):
        return CoordinatorError(f"{what}: unexpected answer {response.status_code}; is that a coordinator?")
    if not isinstance(detail, str):
        detail = "; ".join(f"{'.'.join(str(part) for part in item['loc'][1:])}: {item['msg']}" for item in detail)
    if response.status_code == 503:
        return NotLeadingError(detail)
    return RefusedError(detail) if 400 <= response.status_code < 500 else CoordinatorError(f"{what}: {detail}")
