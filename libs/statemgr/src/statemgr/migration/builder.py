"""Has a scratch base made beside the owner's loop."""

from __future__ import annotations

import logging
from collections.abc import Callable

from statemgr.errors import StateError
from statemgr.migration.ports import Pending, Spawn
from statemgr.migration.sources import ScratchSource

log = logging.getLogger(__name__)


class ScratchBuilder:
    """Makes one scratch base at most, and tries again while that fails.

    Args:
        build: makes it, or raises a StateError; runs in ``spawn``.
        spawn: runs it.
        retry_s: pause after a failure.
    """

    def __init__(self, build: Callable[[], ScratchSource], spawn: Spawn, retry_s: float) -> None:
        self._build = build
        self._spawn = spawn
        self._retry_s = retry_s
        self._running: Pending[None] | None = None
        self._built: list[ScratchSource] = []
        self._closed = False
        self._not_before_s = float("-inf")
        self.error = ""

    @property
    def running(self) -> bool:
        """Whether one is being made."""
        return self._running is not None

    def want(self, now_s: float) -> None:
        """Begin, unless one is being made or a failure is too fresh."""
        if self._running is None and not self._closed and now_s >= self._not_before_s:
            self._running = self._spawn(self._work)

    def poll(self, now_s: float) -> ScratchSource | None:
        """The scratch base, once, when it is ready."""
        if self._running is None or not self._running.done():
            return None
        running, self._running = self._running, None
        try:
            running.result()
        except StateError as error:
            self.error = str(error)
            self._not_before_s = now_s + self._retry_s
            log.warning("no scratch base, trying again in %g s: %s", self._retry_s, error)
            return None
        return self._built.pop() if self._built else None

    def close(self) -> None:
        """Want none any more; one that is still being made is closed as soon as it is there."""
        self._closed = True
        self._discard()

    def _work(self) -> None:
        self._built.append(self._build())
        if self._closed:
            self._discard()

    def _discard(self) -> None:
        """Close what was built; whichever thread takes it from the list does so, and only one can."""
        while self._built:
            try:
                self._built.pop().close()
            except IndexError:
                return
