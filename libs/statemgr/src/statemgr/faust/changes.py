"""What a table has changed, and its store has not taken yet.

::

    table writes ─▶ sent ─▶ acknowledged by the changelog, with an offset ─▶ a batch for the store
         │                                                                       │
         └── read back from here ◀───────────────────────────────────────────────┘ until it is in the store

So a store never has what its changelog lacks, whenever its worker is killed: it is an exact image of the changelog up
to its X, in the order of the writes. (Faust's own stores take a value before it is sent.)
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum


class Absent(Enum):
    """There is no entry; None says that the key is deleted."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


@dataclass(eq=False)
class Change:
    """One write of a key.

    Attributes:
        key: as in the changelog.
        value: None deletes it.
        offset: of its record; -1: none, it is not in the changelog.
        timestamp_ms: of its record.
        over: whether the changelog has taken it, or never will.
    """

    key: bytes
    value: bytes | None
    offset: int = -1
    timestamp_ms: int = 0
    over: bool = False


class Changes:
    """The changes of one partition, in the order in which they were made."""

    def __init__(self) -> None:
        self._order: deque[Change] = deque()
        self._newest: dict[bytes, bytes | None] = {}
        self._left: dict[bytes, int] = {}
        self._sent = 0

    def __len__(self) -> int:
        """How many the store has not taken."""
        return len(self._order)

    @property
    def unanswered(self) -> int:
        """How many the changelog has not acknowledged."""
        return self._sent

    def get(self, key: bytes) -> bytes | Absent | None:
        """The newest value that the store lacks; None: deleted."""
        return self._newest.get(key, ABSENT)

    def newest(self) -> dict[bytes, bytes | None]:
        """All of them: key → newest value."""
        return self._newest

    def sent(self, key: bytes, value: bytes | None) -> Change:
        """A change whose record is on its way."""
        self._sent += 1
        return self._add(Change(key, value))

    def local(self, key: bytes, value: bytes | None) -> None:
        """A change that is made without a record, as when a window expires."""
        self._add(Change(key, value, over=True))

    def acknowledged(self, change: Change, offset: int, timestamp_ms: int) -> None:
        """The changelog has taken it."""
        change.offset, change.timestamp_ms = offset, timestamp_ms
        self._answered(change)

    def refused(self, change: Change) -> None:
        """The changelog will never have it. The worker goes on with its value, as with any of Faust's stores."""
        self._answered(change)
        if change in self._order:
            self._order.remove(change)
            self._take_off(change, keep=True)

    def take(self, limit: int) -> list[Change]:
        """The oldest ones that the store may take; they stay here until :meth:`stored`."""
        ready: list[Change] = []
        for change in self._order:
            if not change.over or len(ready) >= limit:
                break
            ready.append(change)
        return ready

    def stored(self, changes: list[Change]) -> None:
        """The store has taken these, which :meth:`take` has given."""
        for change in changes:
            taken = self._order.popleft()
            if taken is not change:
                raise AssertionError("changes are taken in their order")
            self._take_off(change, keep=False)

    def _add(self, change: Change) -> Change:
        self._order.append(change)
        self._newest[change.key] = change.value
        self._left[change.key] = self._left.get(change.key, 0) + 1
        return change

    def _answered(self, change: Change) -> None:
        if not change.over:
            change.over = True
            self._sent -= 1

    def _take_off(self, change: Change, *, keep: bool) -> None:
        left = self._left[change.key] - 1
        if left:
            self._left[change.key] = left
            return
        del self._left[change.key]
        if not keep:
            self._newest.pop(change.key, None)
