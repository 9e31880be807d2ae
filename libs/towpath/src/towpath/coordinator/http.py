"""The coordinator over HTTP: heartbeats, requests of operators, and what there is to see; OpenAPI at ``/docs``."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from statemgr.clock import Clock
from statemgr.layout import REPLICA_NAME
from towpath.coordinator import views
from towpath.coordinator.body_limit import BodyLimit
from towpath.coordinator.coordinator import Coordinator
from towpath.coordinator.errors import CoordinatorError, NotLeadingError, RefusedError, UnknownNameError
from towpath.coordinator.history import StageHistory
from towpath.coordinator.messages import (
    NAME_LENGTH,
    Accepted,
    Heartbeat,
    HeartbeatAnswer,
    HolderBeat,
    MoveRequest,
    Refused,
    ScaleRequest,
)
from towpath.coordinator.page import page
from towpath.coordinator.statuses import Health, MigrationStatus, ReplicaStatus, TaskStatus, Topology
from towpath.coordinator.write_limit import WriteLimit

LOG_TIMEOUT_S = 12.0
"""A request is logged by the next turn and read back by the one after, 50 ms later at rest. A fence that is under way
may take 5 s, and a stopped writer's open transaction hides the log from readers for 10 s."""

MOST_BYTES = 1024 * 1024
"""Of a request. A heartbeat with a thousand tasks under way has a fourth of it."""

_STATUS: dict[type[CoordinatorError], int] = {UnknownNameError: 404, RefusedError: 422, NotLeadingError: 503}
"""The first that fits counts."""

_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Refused, "description": description}
    for status, description in {
        400: "The body can't be read",
        401: "Credentials are missing or wrong",
        403: "Asked for by a page of another origin, or under a name that is not local",
        404: "No such replica, state manager or page",
        413: "The request is too large",
        422: "The request makes no sense, or names what there is not",
        429: "Too many requests; Retry-After says when to come again",
        503: "This coordinator does not lead, or does not come on",
    }.items()
}
"""What may be answered instead."""

StageName = Annotated[str, Path(max_length=NAME_LENGTH)]
ReplicaName = Annotated[str, Path(pattern=REPLICA_NAME)]


def application(coordinator: Coordinator, clock: Clock, stall_s: float) -> FastAPI:
    """The HTTP application of a coordinator.

    Args:
        coordinator: answers.
        clock: time.
        stall_s: health is red when a turn takes longer.
    """
    app = FastAPI(title=f"Towpath coordinator of {coordinator.app}", version="1", responses=_REFUSALS)
    app.add_exception_handler(CoordinatorError, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_middleware(BodyLimit, most=MOST_BYTES)
    app.add_middleware(WriteLimit, clock=clock)
    _add_heartbeats(app, coordinator)
    _add_requests(app, coordinator)
    _add_views(app, coordinator)
    _add_health(app, coordinator, clock, stall_s)
    return app


def _refused(_: Request, error: Exception) -> Response:
    """One line for the operator, as everywhere."""
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 500)
    return JSONResponse({"detail": str(error)}, status_code=status)


def _invalid(_: Request, error: Exception) -> Response:
    """What is wrong with a request, without what it held: that need not be anything that JSON can say."""
    found = error.errors() if isinstance(error, RequestValidationError) else []
    wrong = [f"{'.'.join(map(str, each['loc'][1:])) or 'body'}: {each['msg']}" for each in found]
    return JSONResponse({"detail": "; ".join(wrong)}, status_code=422)


def _add_heartbeats(app: FastAPI, coordinator: Coordinator) -> None:
    @app.post("/replicas/{stage}/{name}/heartbeat", tags=["replicas"])
    def heartbeat(stage: StageName, name: ReplicaName, beat: Heartbeat) -> HeartbeatAnswer:
        """A replica says what it does, and is told what will come."""
        return coordinator.heartbeat(stage, name, beat)

    @app.post("/replicas/{stage}/{name}/died", tags=["replicas"])
    def died(stage: StageName, name: ReplicaName) -> Accepted:
        """A supervisor saw the replica's process end: its tasks get other owners at once."""
        coordinator.died(stage, name)
        return Accepted(term=coordinator.view.term)

    @app.post("/holders/{name}", tags=["replicas"])
    def holder(name: ReplicaName, beat: HolderBeat) -> Accepted:
        """A state manager says where it is."""
        coordinator.holder(name, beat)
        return Accepted(term=coordinator.view.term)


def _add_requests(app: FastAPI, coordinator: Coordinator) -> None:
    @app.post("/scale", tags=["operators"])
    def scale(request: ScaleRequest) -> Accepted:
        """How many replicas of a stage shall own tasks, and how state travels; answered once it is in force."""
        wish = coordinator.scale(request)
        if not wish.decided.wait(LOG_TIMEOUT_S):
            raise NotLeadingError(
                f"the request is not in force after {LOG_TIMEOUT_S:g} s, and may yet come; see /health"
            )
        if wish.error is not None:
            raise NotLeadingError(wish.error)
        return Accepted(term=coordinator.view.term)

    @app.post("/move", tags=["operators"])
    def move(request: MoveRequest) -> Accepted:
        """A task to a replica; holds until that replica leaves, the stage is scaled, or the coordinator restarts."""
        return Accepted(moves=int(coordinator.move(request)), term=coordinator.view.term)


def _add_views(app: FastAPI, coordinator: Coordinator) -> None:
    @app.get("/topology", tags=["views"])
    def topology() -> Topology:
        """Stages and replicas."""
        with coordinator.look() as facts:
            return views.topology(facts, coordinator.app, leading=coordinator.leading)

    @app.get("/tasks", tags=["views"])
    def tasks() -> list[TaskStatus]:
        """Every task, its owner, and what that one says of it."""
        with coordinator.look() as facts:
            return views.task_statuses(facts)

    @app.get("/replicas", tags=["views"])
    def replicas() -> list[ReplicaStatus]:
        """Every replica that was heard or that owns something."""
        with coordinator.look() as facts:
            return views.replica_statuses(facts)

    @app.get("/migrations", tags=["views"])
    def migrations() -> list[MigrationStatus]:
        """Moves under way, then those that have ended lately."""
        with coordinator.look() as facts:
            return views.migration_statuses(facts)

    @app.get("/history", tags=["views"])
    def history(since_ms: int = 0) -> list[StageHistory]:
        """What each stage did in the last 15 minutes, second by second, as far as it is newer than ``since_ms``."""
        with coordinator.lock:
            return coordinator.history.since(since_ms)

    @app.get("/", include_in_schema=False)
    def overview() -> Response:
        """A page about all of it, for people."""
        return HTMLResponse(page().html, headers={"Content-Security-Policy": page().policy})


def _add_health(app: FastAPI, coordinator: Coordinator, clock: Clock, stall_s: float) -> None:
    @app.get("/health", tags=["health"], responses={503: {"model": Health, "description": "It does not come on"}})
    def health(response: Response) -> Health:
        """200 while turns follow each other, also while another coordinator leads; 503 with the reason if not.

        Moves that have stalled are named, and are no reason: a new coordinator would help none of them.
        """
        problem = stalled(coordinator, clock, stall_s)
        response.status_code = 503 if problem is not None else 200
        with coordinator.look() as facts:
            stuck = [f"{move.task}: {move.stalled}" for move in views.stalled_moves(facts)]
        return Health(
            app=coordinator.app,
            name=coordinator.name,
            term=coordinator.view.term,
            leading=coordinator.leading,
            problem=problem or coordinator.problem,
            stalled=stuck,
        )

    @app.get("/metrics", tags=["health"])
    def metrics() -> Response:
        """For Prometheus."""
        with coordinator.look() as facts:
            coordinator.metrics.refresh(facts, leading=coordinator.leading)
        return Response(generate_latest(coordinator.metrics.registry), media_type=CONTENT_TYPE_LATEST)


def stalled(coordinator: Coordinator, clock: Clock, stall_s: float) -> str | None:
    """What the coordinator is stuck in; None if its turns follow each other."""
    since_s = clock.monotonic_s() - coordinator.ticked_s
    return f"no turn for {since_s:.0f} s (limit {stall_s:g} s)" if since_s >= stall_s else None
