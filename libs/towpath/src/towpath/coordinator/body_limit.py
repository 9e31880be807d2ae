"""Refuses requests whose bodies are larger than anything that is said here, before they fill the memory."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_TOO_LARGE = 413


class BodyLimit:
    """ASGI middleware; a body that is too large is answered with 413, whether or not its length was announced."""

    def __init__(self, app: ASGIApp, most: int) -> None:
        """``most``: bytes of a body."""
        self._app = app
        self._most = most
        self._detail = f"the request's body has more than {most} bytes"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request, or refuse it."""
        if scope["type"] == "http" and _announced(scope) > self._most:
            await JSONResponse({"detail": self._detail}, status_code=_TOO_LARGE)(scope, receive, send)
            return
        taken = 0

        async def counted() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > self._most:
                raise HTTPException(_TOO_LARGE, self._detail)
            return message

        await self._app(scope, counted, send)


def _announced(scope: Scope) -> int:
    """Length by the request's own word; 0 if it says none that can be read."""
    said = dict(scope["headers"]).get(b"content-length", b"")
    return int(said) if said.isdigit() else 0
