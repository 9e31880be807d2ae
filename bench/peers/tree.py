"""Processor time and memory of a process and all that descends from it, those that have ended included."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable

import psutil

DISCOVER_S = 0.5
"""Between two looks for new descendants: a look costs a few ms, and what lives shorter is waited for by its parent."""


class ProcessTree:
    """What some processes and their descendants have used so far.

    A descendant that was seen once keeps being counted when its parent ends before it. What one used between the last
    look at it and its end is lost: at most one interval between two samples.
    """

    def __init__(self, roots: Iterable[int], clock: Callable[[], float] = time.monotonic) -> None:
        self._roots = [psutil.Process(pid) for pid in roots]
        self._known: dict[tuple[int, float], psutil.Process] = {}
        self._used: dict[tuple[int, float], float] = {}
        self._clock = clock
        self._discovered: float | None = None

    def cpu_s(self) -> float:
        """Processor seconds, user and system, of all of them since they began."""
        self._discover()
        for identity, process in list(self._known.items()):
            try:
                times = process.cpu_times()
            except (psutil.NoSuchProcess, psutil.ZombieProcess):
                del self._known[identity]
            else:
                self._used[identity] = times.user + times.system
        return sum(self._used.values())

    def rss_bytes(self) -> list[int]:
        """Resident memory of each of them, largest first; pages that they share count for each."""
        self._discover()
        sizes = []
        for process in self._known.values():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                sizes.append(int(process.memory_info().rss))
        return sorted(sizes, reverse=True)

    def kill(self) -> None:
        """End all of them, now."""
        self._discovered = None
        self._discover()
        for process in self._known.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs([process for process in self._known.values() if process not in self._roots], timeout=10)

    def _discover(self) -> None:
        now = self._clock()
        if self._discovered is not None and now - self._discovered < DISCOVER_S:
            return
        self._discovered = now
        for process in [*self._roots, *self._known.values()]:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
                for each in (process, *process.children(recursive=True)):
                    self._known.setdefault((each.pid, each.create_time()), each)
