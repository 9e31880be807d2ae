"""How far changelogs have been read for tasks on their way: told beside the replica's loop, asked by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from statemgr.changelog.model import RestoreProgress
from statemgr.clock import Clock
from statemgr.migration.progress import Rate
from statemgr.types import TaskId


class _Reading:
    """One task's."""

    def __init__(self, now_s: float) -> None:
        self._rate = Rate(now_s)
        self.said: dict[str, Any] = {"phase": "reading the changelog"}

    def told(self, progress: RestoreProgress, now_s: float) -> None:
        self._rate.note(progress.bytes, now_s)
        self.said = {
            "phase": "reading the changelog",
            "records": progress.records,
            "remaining": progress.remaining,
            "bytes": progress.bytes,
            "rate": self._rate.value,
        }


class Readings:
    """What is being read now.

    Args:
        clock: time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._under_way: dict[tuple[TaskId, int], _Reading] = {}

    @contextmanager
    def follow(self, epochs: Mapping[TaskId, int]) -> Iterator[Callable[[RestoreProgress], None]]:
        """While a restore of these tasks lasts; gives what is to be told of its progress."""
        now_s = self._clock.monotonic_s()
        readings = {task: _Reading(now_s) for task in epochs}
        self._under_way.update({(task, epoch): readings[task] for task, epoch in epochs.items()})

        def told(progress: RestoreProgress) -> None:
            for task, reading in readings.items():
                reading.told(progress.each.get(task, progress), self._clock.monotonic_s())

        try:
            yield told
        finally:
            for key in epochs.items():
                if self._under_way.get(key) is readings[key[0]]:  # else a later one has begun, and this one was in vain
                    del self._under_way[key]

    def of(self, task: TaskId, epoch: int) -> dict[str, Any]:
        """What is known of a task's, in the words of :mod:`towpath.coordinator.progress`; empty: nothing is read."""
        reading = self._under_way.get((task, epoch))
        return reading.said if reading is not None else {}
