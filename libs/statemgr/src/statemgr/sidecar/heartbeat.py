"""A state manager's line to the coordinator: where it listens."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import quote

import structlog

log = structlog.get_logger()

INTERVAL_S = 1.0
"""Between two heartbeats: a moved state manager is found a second later at most."""

TIMEOUT_S = 2.0
"""For one; the coordinator answers in a few ms."""

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Heartbeats:
    """Tells the coordinator once a second; it may be away at any time, what it knows are hints.

    Args:
        coordinator: its URL.
        name: the replica's name.
        address: ``host:port`` at which the state manager can be reached.
        post: sends a body to a URL; raises OSError or, where the answer breaks off, HTTPException.
    """

    def __init__(
        self,
        coordinator: str,
        name: str,
        address: str,
        post: Callable[[str, bytes], None] | None = None,
    ) -> None:
        self._url = f"{coordinator.rstrip('/')}/holders/{quote(name, safe='')}"
        self._body = json.dumps({"address": address}).encode()
        self._post = post or _post
        self._trouble = ""

    def start(self, stop: threading.Event) -> None:
        """Send them from a thread until ``stop``."""
        threading.Thread(target=self._run, args=(stop,), name="heartbeat", daemon=True).start()

    def beat(self) -> None:
        """Send one; whatever goes wrong is logged once, and the next is sent nevertheless."""
        try:
            self._post(self._url, self._body)
        except (OSError, HTTPException) as error:
            self._failed(f"the coordinator at {self._url} does not take heartbeats: {_reason(error)}")
        except Exception as error:  # noqa: BLE001 - without heartbeats nobody finds this state manager any more
            self._failed(f"a heartbeat to {self._url} was not sent: {type(error).__name__}: {error}", error)
        else:
            if self._trouble:
                log.info("the coordinator takes heartbeats again")
            self._trouble = ""

    def _failed(self, trouble: str, unforeseen: Exception | None = None) -> None:
        if trouble != self._trouble:
            self._trouble = trouble
            log.warning(trouble, exc_info=unforeseen)

    def _run(self, stop: threading.Event) -> None:
        self.beat()
        while not stop.wait(INTERVAL_S):
            self.beat()


def _post(url: str, body: bytes) -> None:
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")  # noqa: S310
    with _OPENER.open(request, timeout=TIMEOUT_S) as answer:
        answer.read()


def _reason(error: OSError | HTTPException) -> str:
    if isinstance(error, HTTPError):
        return f"status {error.code}"
    return str(getattr(error, "reason", error)) or type(error).__name__
