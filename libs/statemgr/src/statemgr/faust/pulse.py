"""Notices that the process has stood still: then its group may have given its partitions to others.

Faust fences nobody. A worker that was stopped (SIGSTOP, a machine that was suspended or starved) goes on with what it
has buffered before it hears that it has lost its partitions, and writes older values over newer ones in their
changelogs. So a worker that has stood still for about its session time-out touches no table any more. A thread of its
own is the measure, because an event loop that is only busy does not keep the consumer's thread from its heartbeats.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

TICK_S = 0.25
"""Between two beats of the thread."""


class Pulse:
    """A thread that should beat.

    Args:
        limit_s: a pause of this length counts as standing still.
        clock: monotonic seconds.
    """

    def __init__(self, limit_s: float, clock: Callable[[], float]) -> None:
        self._limit_s = max(limit_s, 2 * TICK_S)
        self._clock = clock
        self._beat_s = clock()
        self._stood_s = 0.0
        self._over = threading.Event()

    def start(self) -> None:
        """Begin to beat."""
        self._beat_s = self._clock()
        threading.Thread(target=self._run, name="pulse", daemon=True).start()

    def stop(self) -> None:
        """End."""
        self._over.set()

    def beat(self) -> None:
        """One beat; a pause before it that was too long is never forgotten."""
        now_s = self._clock()
        if now_s - self._beat_s >= self._limit_s:
            self._stood_s = max(self._stood_s, now_s - self._beat_s)
        self._beat_s = now_s

    def stood_still_s(self) -> float:
        """How long the process has stood still, if too long; else 0."""
        return self._stood_s or (gap if (gap := self._clock() - self._beat_s) >= self._limit_s else 0.0)

    def _run(self) -> None:
        while not self._over.wait(TICK_S):
            self.beat()
