"""Timers of a task's entries of state: an index that is read from the state, and so moves with it."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from statemgr.state import TaskState
from towpath.query.plan import OperatorContext


class Timers:
    """When entries of one table are due, in ms of event time; at most one timer an entry.

    Args:
        state: of the task.
        table: name of the table.
        time_of: key and value of an entry → when it is due.
    """

    def __init__(self, state: TaskState, table: str, time_of: Callable[[bytes, Any], int]) -> None:
        self._state = state
        self._complete = state.complete
        self._keys: dict[int, dict[bytes, None]] = {}
        self._time: dict[bytes, int] = {}
        self._order: list[int] = []
        if not self._complete:
            return  # they are read when all have come, and nothing goes off before
        with state.table(table).items() as entries:
            for key, value in entries:
                self.add(key, time_of(key, value))

    def are_of(self, state: TaskState) -> bool:
        """Whether they are those of this state, and none of it came only after they were read."""
        return self._state is state and self._complete == state.complete

    @property
    def earliest(self) -> int | None:
        """The earliest timer."""
        while self._order and self._order[0] not in self._keys:
            heappop(self._order)
        return self._order[0] if self._order else None

    def add(self, key: bytes, time_ms: int) -> None:
        """Set an entry's timer, unless it has an earlier one."""
        before = self._time.get(key)
        if before is not None:
            if before <= time_ms:
                return
            self._remove(before, key)
        if time_ms not in self._keys:
            self._keys[time_ms] = {}
            heappush(self._order, time_ms)
        self._keys[time_ms][key] = None
        self._time[key] = time_ms

    def take(self, until_ms: int, most: int) -> list[bytes]:
        """Entries that are due until then, earliest first, ``most`` of them; they have no timer any more."""
        taken: list[bytes] = []
        while len(taken) < most and (time := self.earliest) is not None and time <= until_ms:
            for key in list(self._keys[time])[: most - len(taken)]:
                self._remove(time, key)
                taken.append(key)
        return taken

    def _remove(self, time: int, key: bytes) -> None:
        del self._keys[time][key], self._time[key]
        if not self._keys[time]:
            del self._keys[time]


class TaskTimers:
    """The timers of every task, read from its state where they are not known yet."""

    def __init__(self, table: str, time_of: Callable[[bytes, Any], int]) -> None:
        """See :class:`Timers`."""
        self._table = table
        self._time_of = time_of
        self._known: dict[int, Timers] = {}

    def of(self, partition: int, context: OperatorContext) -> Timers:
        """Those of one task."""
        state = context.tasks[partition]
        known = self._known.get(partition)
        if known is None or not known.are_of(state):
            known = self._known[partition] = Timers(state, self._table, self._time_of)
        return known
