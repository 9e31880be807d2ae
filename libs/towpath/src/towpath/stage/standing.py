"""What a replica's tasks stand at: lag, event time, size of state, hits of caches; for metrics alone.

It is looked at once a second, between two batches, so that it costs the same however many rows come.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress

from statemgr.clock import Clock
from statemgr.errors import StateError
from statemgr.state import TaskState
from statemgr.types import TopicPartition
from statemgr.watermarks import IDLE, NEVER
from towpath.stage.lags import Unread, lag_of
from towpath.stage.metrics import StageMetrics
from towpath.stage.tasks import OwnedTask

LOOK_S = 1.0
"""Between two looks; Prometheus comes by every 5 to 60 s."""

SIZE_EVERY = 10
"""Looks of which one asks stores how large they are, besides new ones: some microseconds for each table file."""


class Standing:
    """Shows it.

    Args:
        metrics: of the replica.
        unread: how much of an input is still to be read.
        clock: time.
    """

    def __init__(self, metrics: StageMetrics, unread: Unread, clock: Clock) -> None:
        self._metrics = metrics
        self._unread = unread
        self._clock = clock
        self._due_s = float("-inf")
        self._looks = 0
        self._counted: dict[TaskState, dict[str, tuple[int, int]]] = {}

    def look(self, tasks: Collection[OwnedTask]) -> None:
        """Look at the tasks if it is time; to be called every turn."""
        now_s = self._clock.monotonic_s()
        if now_s < self._due_s:
            return
        self._due_s = now_s + LOOK_S
        sized = self._looks % SIZE_EVERY == 0
        self._looks += 1
        for task in tasks:
            self._look_at(task, sized=sized)
        states = [task.state for task in tasks if task.state is not None]
        self._metrics.dirty.set(sum(state.dirty_entries for state in states))
        self._metrics.tasks.cached.set(sum(state.cached_entries for state in states))
        self._metrics.waiting.set(sum(task.parking.rows for task in tasks if task.parking is not None))

    def let_go(self, task: OwnedTask, sources: Collection[TopicPartition]) -> None:
        """A task is not owned any more."""
        self._count_reads(task.state)
        if task.state is not None:
            self._counted.pop(task.state, None)
        self._metrics.tasks.released(task.id.partition, sources)

    def drop(self) -> None:
        """No task is owned any more."""
        self._counted = {}
        self._due_s = float("-inf")
        self._looks = 0
        self._metrics.tasks.released_all()

    def _look_at(self, task: OwnedTask, *, sized: bool) -> None:
        for source in task.reads_from():
            lag = lag_of(task, source, self._unread)
            if lag is not None:
                self._metrics.tasks.lag(source, lag.read, lag.committed)
        watermark = task.watermarks.current if task.watermarks is not None else NEVER
        if NEVER < watermark < IDLE:
            self._metrics.tasks.watermark_lag(task.id.partition, (self._clock.wall_ms() - watermark) / 1000)
        new = task.state not in self._counted
        self._count_reads(task.state)
        if (sized or new) and task.state is not None:
            with suppress(StateError):  # the next read or write of the store says what is wrong with it
                self._metrics.tasks.size(task.id.partition, task.state.store.size())

    def _count_reads(self, state: TaskState | None) -> None:
        if state is None:
            return
        before: Mapping[str, tuple[int, int]] = self._counted.get(state, {})
        now = self._counted[state] = state.reads()
        for table, (asked, read) in now.items():
            asked_before, read_before = before.get(table, (0, 0))
            if asked > asked_before:
                self._metrics.tasks.reads(table, asked - asked_before, read - read_before)
