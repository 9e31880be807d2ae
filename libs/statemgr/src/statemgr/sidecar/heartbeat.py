"""A state manager's line to the coordinator: where it listens."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.client import HTTPException
from urllib.parse import quote

import structlog

from statemgr.security.post import PostRefusedError

log = structlog.get_logger()

INTERVAL_S = 1.0
"""Between two heartbeats: a moved state manager is found a second later at most."""

TIMEOUT_S = 2.0
"""For one; the coordinator answers in a few ms."""

NOT_KNOWN = 404
"""A coordinator's answer as long as it has not heard of the replica."""

PATIENT_BEATS = 10
"""So many such answers are none to worry about: a stage joins some seconds after its state manager."""


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
        post: Callable[[str, bytes], None],
    ) -> None:
        self._url = f"{coordinator.rstrip('/')}/holders/{quote(name, safe='')}"
        self._body = json.dumps({"address": address}).encode()
        self._post = post
        self._trouble = ""
        self._not_known = 0

    def start(self, stop: threading.Event) -> None:
        """Send them from a thread until ``stop``."""
        threading.Thread(target=self._run, args=(stop,), name="heartbeat", daemon=True).start()

    def beat(self) -> None:
        """Send one; whatever goes wrong is logged once, and the next is sent nevertheless."""
        try:
            self._post(self._url, self._body)
        except (OSError, HTTPException) as error:
            if not self._is_early(error) and self._is_news(reason := _reason(error)):
                log.warning(f"the coordinator at {self._url} does not take heartbeats: {reason}")
        except Exception as error:  # without heartbeats nobody finds this state manager any more
            if self._is_news(cause := f"{type(error).__name__}: {error}"):
                log.warning(f"a heartbeat to {self._url} was not sent: {cause}", exc_info=error)
        else:
            if self._trouble:
                log.info("the coordinator takes heartbeats again")
            self._trouble, self._not_known = "", 0

    def _is_news(self, trouble: str) -> bool:
        before, self._trouble = self._trouble, trouble
        return trouble != before

    def _is_early(self, error: OSError | HTTPException) -> bool:
        """Whether the coordinator does not know the replica, and has not said so for long."""
        if not isinstance(error, PostRefusedError) or error.status != NOT_KNOWN:
            return False
        self._not_known += 1
        return self._not_known <= PATIENT_BEATS

    def _run(self, stop: threading.Event) -> None:
        self.beat()
        while not stop.wait(INTERVAL_S):
            self.beat()


def _reason(error: OSError | HTTPException) -> str:
    return str(getattr(error, "reason", error)) or type(error).__name__
