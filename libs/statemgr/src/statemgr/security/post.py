"""Posts to the coordinator by the standard library alone: heartbeats of small processes, and reports of deaths."""

from __future__ import annotations

import json
import urllib.request
from urllib.error import HTTPError

from statemgr.security.credentials import Credentials
from statemgr.security.tls import client_context

MOST_REASON_BYTES = 1000
"""Of a refusal's body: a coordinator's has one line."""


class PostRefusedError(OSError):
    """An answer other than success.

    Attributes:
        status: of HTTP.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(f"status {status}: {detail}" if detail else f"status {status}")
        self.status = status


class Poster:
    """Sends bodies to one coordinator or another; proxies of the environment are for the world outside.

    Args:
        credentials: shown to it.
        timeout_s: longest wait for one answer.

    Raises:
        SecurityError: TLS can't be set up.
    """

    def __init__(self, credentials: Credentials, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._headers = {"Content-Type": "application/json"}
        if credentials.authorization:
            self._headers["Authorization"] = credentials.authorization
        handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({}), _NoRedirect()]
        if credentials.tls is not None:
            handlers.append(urllib.request.HTTPSHandler(context=client_context(credentials.tls)))
        self._opener = urllib.request.build_opener(*handlers)

    def __call__(self, url: str, body: bytes) -> None:
        """Send one.

        Raises:
            PostRefusedError: another answer than success.
            OSError: no answer.
            HTTPException: an answer that breaks off.
        """
        request = urllib.request.Request(url, body, self._headers, method="POST")  # noqa: S310 - checked by its callers
        try:
            with self._opener.open(request, timeout=self._timeout_s) as answer:
                answer.read()
        except HTTPError as error:
            raise PostRefusedError(error.code, _detail(error.read(MOST_REASON_BYTES))) from error


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A coordinator redirects nobody, and a token is for it alone."""

    def redirect_request(self, *_: object) -> None:
        """See :meth:`urllib.request.HTTPRedirectHandler.redirect_request`."""
        return


def _detail(body: bytes) -> str:
    """The reason that a coordinator gives; empty: none, or it is no coordinator."""
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
