"""Timers of a task's entries of state: an index that is read from the state, and so moves with it."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import islice
from typing import Any

from statemgr.layout import BIN_COUNT
from statemgr.state import TaskState
from statemgr.watermarks import NEVER
from towpath.query.plan import OperatorContext

FIRST_ENTRIES = 1_000
"""Entries that are read as soon as anybody asks: all tasks of a replica may be asked in one turn."""

READ_ENTRIES = 20_000
"""Entries that are read from the state at once: tens of milliseconds, so that a million of them do not hold up a task
that comes."""


class Timers:
    """When entries of one table are due, in ms of event time; at most one timer an entry.

    They are read from the state a slice at a time: a small one at once, another with each :meth:`take`. Until all
    are read something may be due at any moment.

    Args:
        state: of the task.
        table: name of the table.
        time_of: key and value of an entry → when it is due; None: never.
        at_once: entries of a slice, in whole bins of the state.
    """

    def __init__(
        self,
        state: TaskState,
        table: str,
        time_of: Callable[[bytes, Any], int | None],
        at_once: int = READ_ENTRIES,
    ) -> None:
        self._state = state
        self._table = state.table(table)
        self._time_of = time_of
        self._at_once = at_once
        self._open_bins = state.open_bins
        self._keys: dict[int, dict[bytes, None]] = {}
        self._time: dict[bytes, int] = {}
        self._order: list[int] = []
        self._next_bin = 0
        for key, value in self._table.uncommitted().items():
            if value is not None:
                self._note(key, value)
        self._read(min(FIRST_ENTRIES, at_once))

    def are_of(self, state: TaskState) -> bool:
        """Whether they are those of this state."""
        return self._state is state

    def catch_up(self) -> None:
        """Read the timers of bins that have come since."""
        now = self._state.open_bins
        if now is not self._open_bins:
            came, self._open_bins = self._open_bins - now, now
            for bin_ in sorted(came):
                if bin_ < self._next_bin:
                    self._read_bin(bin_)

    def by_bin(self, most: int) -> dict[int, int]:
        """The earliest timer of each bin, or, once ``most`` entries were looked at, less; for a release.

        Bins without a timer are left out; of those that are not read yet any moment may be one.
        """
        found = dict.fromkeys(range(self._next_bin, BIN_COUNT), NEVER)
        looked_at = 0
        for time in sorted(self._keys):
            if len(found) == BIN_COUNT:
                break
            keys = list(islice(self._keys[time], most - looked_at))
            for stored in self._table.store_keys(keys):
                found.setdefault(stored[0], time)
            looked_at += len(keys)
            if len(keys) < len(self._keys[time]):
                return dict.fromkeys(range(BIN_COUNT), time) | found
        return found

    @property
    def earliest(self) -> int | None:
        """The earliest timer; :data:`statemgr.watermarks.NEVER` while some are not read."""
        if self._next_bin < BIN_COUNT:
            return NEVER
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
        """Entries that are due until then, earliest first, ``most`` of them; they have no timer any more.

        None, while there are still some to be read.
        """
        if self._next_bin < BIN_COUNT:
            self._read(self._at_once)
        taken: list[bytes] = []
        if self._next_bin < BIN_COUNT:
            return taken
        while len(taken) < most and (time := self.earliest) is not None and time <= until_ms:
            for key in list(self._keys[time])[: most - len(taken)]:
                self._remove(time, key)
                taken.append(key)
        return taken

    def _read(self, left: int) -> None:
        """Read about so many entries more. What changed since an entry was committed has set its timer already."""
        while left > 0 and self._next_bin < BIN_COUNT:
            left -= self._read_bin(self._next_bin)
            self._next_bin += 1

    def _read_bin(self, bin_: int) -> int:
        """Read what is here of a bin; gives the number of entries.

        A list that is here in part has no timer yet: what the former owner has told of its bin stands for it.
        """
        number = 0
        with self._table.stored(bin_) as entries:
            for key, value in entries:
                if bin_ not in self._open_bins or not self._state.rest_of(self._table.store_keys([key])):
                    self._note(key, value)
                number += 1
        return number

    def _note(self, key: bytes, value: Any) -> None:
        time_ms = self._time_of(key, value)
        if time_ms is not None:
            self.add(key, time_ms)

    def _remove(self, time: int, key: bytes) -> None:
        del self._keys[time][key], self._time[key]
        if not self._keys[time]:
            del self._keys[time]


class TaskTimers:
    """The timers of every task, read from its state where they are not known yet."""

    def __init__(self, table: str, time_of: Callable[[bytes, Any], int | None]) -> None:
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
        else:
            known.catch_up()
        return known
