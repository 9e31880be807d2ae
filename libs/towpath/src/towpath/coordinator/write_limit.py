"""How often something may be asked of a coordinator: a replica that runs wild must not keep it from the others.

A bucket for each path of a replica or state manager, and one for all that operators ask for. A bucket is a single
number, the time at which it is full again (the "generic cell rate algorithm" of ATM's traffic management).
"""

from __future__ import annotations

import math

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from statemgr.clock import Clock

OPERATORS = ("/scale", "/move")

OPERATORS_PER_S = 20.0
OPERATORS_AT_ONCE = 100
"""Every task of a large stage moved by a script; each waits for the log, which takes a tenth of a second."""

REPLICA_PER_S = 100.0
REPLICA_AT_ONCE = 100
"""Of one path. A replica says something at most every 20 ms, twice that where it was started again."""

MOST_BUCKETS = 10_000
"""That are not full: a thousand replicas with all their paths, some times over. A new one beyond is refused."""


class Rates:
    """Buckets by name.

    Args:
        per_s: how often, in the long run.
        at_once: how often at once, after a rest.
    """

    def __init__(self, per_s: float, at_once: int) -> None:
        self._step_s = 1.0 / per_s
        self._room_s = (at_once - 1) / per_s
        self._full_s: dict[str, float] = {}

    def wait_s(self, name: str, now_s: float) -> float:
        """Take one from a bucket; gives 0, or if there is none how long to wait for it, with nothing taken."""
        full_s = max(self._full_s.get(name, now_s), now_s)
        wait_s = full_s - now_s - self._room_s
        if wait_s > 0:
            return wait_s
        if name not in self._full_s and len(self._full_s) >= MOST_BUCKETS:
            self._full_s = {name: at_s for name, at_s in self._full_s.items() if at_s > now_s}
            if len(self._full_s) >= MOST_BUCKETS:
                return self._step_s
        self._full_s[name] = full_s + self._step_s
        return 0.0


class WriteLimit:
    """ASGI middleware: too many requests that change something are answered with 429 and when to come again.

    Args:
        app: the application.
        clock: time.
    """

    def __init__(self, app: ASGIApp, clock: Clock) -> None:
        self._app = app
        self._clock = clock
        self._operators = Rates(OPERATORS_PER_S, OPERATORS_AT_ONCE)
        self._replicas = Rates(REPLICA_PER_S, REPLICA_AT_ONCE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request, or refuse it."""
        wait_s = self._wait_s(scope) if scope["type"] == "http" and scope["method"] == "POST" else 0.0
        if wait_s == 0.0:
            await self._app(scope, receive, send)
            return
        detail = f"too many requests at {scope['path']}: again after {wait_s:.2f} s"
        answer = JSONResponse({"detail": detail}, 429, {"Retry-After": str(math.ceil(wait_s))})
        await answer(scope, receive, send)

    def _wait_s(self, scope: Scope) -> float:
        path, now_s = scope["path"], self._clock.monotonic_s()
        if path in OPERATORS:
            return self._operators.wait_s("operators", now_s)
        return self._replicas.wait_s(path, now_s)
