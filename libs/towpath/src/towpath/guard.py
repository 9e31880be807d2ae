"""Who is answered over HTTP: decided by a request's head alone, before anything else of it is read.

::

    a path of probes ────────────────────────────────▶ answered
    credentials are demanded: certificate, token ────▶ answered, or 401
    none, on loopback: asked for under a local name ─▶ answered, or 403: a page of the web under a borrowed name
    a write from a page of another origin ───────────▶ 403
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from statemgr.security import Credentials, is_loopback

OPEN_PATHS = frozenset({"/health", "/ready"})
"""Probes have no credentials. What these say: whether the service works, and what it is stuck in."""

READS = frozenset({"GET", "HEAD"})

NO_CERTIFICATE = "a certificate is needed, signed by the authority of TOWPATH_TLS_CA: see TOWPATH_TLS_CERT and _KEY"
NO_TOKEN = "the token is missing or wrong: name the file of the services' token by TOWPATH_TOKEN_FILE"  # noqa: S105


@dataclass(frozen=True)
class Refusal:
    """Why a request is not answered."""

    status: int
    detail: str


def refusal(scope: Scope, credentials: Credentials, host: str) -> Refusal | None:
    """Why a request is refused; None: it is not.

    Args:
        scope: of an HTTP request; ``extensions["tls"]`` has the caller's certificates, see :mod:`towpath.peer`.
        credentials: what a caller has to show.
        host: address that the service listens at.
    """
    headers = Headers(scope=scope)
    if scope["path"] in OPEN_PATHS and scope["method"] in READS:
        return None
    if credentials.tls is not None and not scope.get("extensions", {}).get("tls", {}).get("client_cert_chain"):
        return Refusal(401, NO_CERTIFICATE)
    if not credentials.admits(_only(headers, "authorization")):
        return Refusal(401, NO_TOKEN)
    asked = _only(headers, "host")
    if not credentials.demanded and is_loopback(host) and not _is_local(asked, host):
        return Refusal(403, f"without credentials this service answers to local names only, not to {asked!r}")
    origin = _only(headers, "origin")
    if origin and scope["method"] not in READS and urlsplit(origin).netloc.lower() != asked.lower():
        return Refusal(403, "requests that change something are not taken from pages of other origins")
    return None


class Guard:
    """ASGI middleware: what is refused never reaches the application.

    Args:
        app: the application.
        credentials: what a caller has to show.
        host: address that the service listens at.
    """

    def __init__(self, app: ASGIApp, credentials: Credentials, host: str) -> None:
        self._app = app
        self._credentials = credentials
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on a request, or refuse it."""
        refused = refusal(scope, self._credentials, self._host) if scope["type"] == "http" else None
        if refused is None:
            await self._app(scope, receive, send)
            return
        headers = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else None
        await JSONResponse({"detail": refused.detail}, refused.status, headers)(scope, receive, send)


def _only(headers: Headers, name: str) -> str:
    """A header's value; empty if it is not there, or there several times."""
    values = headers.getlist(name)
    return values[0] if len(values) == 1 else ""


def _is_local(asked: str, host: str) -> bool:
    try:
        name: Any = urlsplit(f"//{asked}").hostname or ""
    except ValueError:
        return False
    return is_loopback(name) or name == host.lower()
