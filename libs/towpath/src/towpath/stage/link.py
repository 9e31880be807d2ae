"""A replica's line to its coordinator: heartbeats out, hints back, by a thread that the replica never waits for.

The coordinator may be away at any time: what it says are hints, and the control log is the assignment (R3, R19).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

import structlog

from towpath.coordinator.messages import Heartbeat, HeartbeatAnswer
from towpath.errors import TowpathError

log = structlog.get_logger()

INTERVAL_S = 0.25
"""Between two heartbeats: hints arrive within a quarter of a second, for one small request."""

LEAST_INTERVAL_S = 0.02
"""Between two heartbeats of which the second was asked for at once."""


LAST_WORD_S = 1.0
"""For the last heartbeat of a replica that ends; without it the coordinator notices the silence."""


class Link(Protocol):
    """What the replica's loop sees of the coordinator."""

    def say(self, beat: Heartbeat, *, at_once: bool = False) -> None:
        """Replace what is said by the next heartbeat; ``at_once``: something that somebody waits for."""
        ...

    def heard(self) -> HeartbeatAnswer | None:
        """The newest answer, once; None if there was none since the last call.

        An error that ended the line, and that nobody foresaw, is raised as it came.
        """
        ...

    def close(self) -> None:
        """Say nothing more."""
        ...


class HttpLink:
    """Sends heartbeats from a thread.

    Args:
        send: carries one heartbeat to the coordinator; raises TowpathError when there was no answer.
    """

    def __init__(self, send: Callable[[Heartbeat], HeartbeatAnswer]) -> None:
        self._send = send
        self._beat: Heartbeat | None = None
        self._newest: deque[HeartbeatAnswer] = deque(maxlen=1)
        self._failure: Exception | None = None
        self._urgent = threading.Event()
        self._closed = threading.Event()
        self._reached = True
        self._thread = threading.Thread(target=self._run, name="heartbeat", daemon=True)
        self._thread.start()

    def say(self, beat: Heartbeat, *, at_once: bool = False) -> None:
        """See :class:`Link`."""
        self._beat = beat
        if at_once:
            self._urgent.set()

    def heard(self) -> HeartbeatAnswer | None:
        """See :class:`Link`."""
        if self._failure is not None:
            raise self._failure
        with suppress(IndexError):
            return self._newest.pop()  # at once, so that none that comes meanwhile is lost
        return None

    def close(self) -> None:
        """See :class:`Link`; what was said last is still sent if the coordinator is quick."""
        self._closed.set()
        self._urgent.set()
        self._thread.join(LAST_WORD_S)

    def _run(self) -> None:
        try:
            self._talk()
        except Exception as error:  # noqa: BLE001 - raised again in the replica's loop
            self._failure = error

    def _talk(self) -> None:
        while not self._closed.is_set():
            if self._beat is not None:
                self._exchange(self._beat)
            if not self._closed.wait(LEAST_INTERVAL_S):
                self._urgent.wait(INTERVAL_S)
            self._urgent.clear()
        if self._beat is not None:
            self._exchange(self._beat)

    def _exchange(self, beat: Heartbeat) -> None:
        try:
            self._newest.append(self._send(beat))
        except TowpathError as error:
            if self._reached:
                log.warning("no answer from the coordinator, going on without its hints", cause=str(error))
            self._reached = False
        else:
            if not self._reached:
                log.info("the coordinator answers again")
            self._reached = True
