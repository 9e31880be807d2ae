"""Which files of a task are open and which are closed: read from its state, and so moving with it."""

from __future__ import annotations

from heapq import heappop, heappush

import msgspec

from statemgr.state import TaskState
from towpath.operators.parquet_files import PartValue


class PartFile(msgspec.Struct, frozen=True):
    """A file whose rows are in state.

    Attributes:
        id: unique for ever, so that a name stands for one content.
        part: values of the columns that directories are named by.
        until: end of the rows' stretch of event time in ms; 0 where there is none.
        chunks: number of entries with its rows.
        rows: number of its rows.
        closed: whether no more rows are added.
    """

    id: str
    part: list[PartValue]
    until: int
    chunks: int = 0
    rows: int = 0
    closed: bool = False


class FileIndex:
    """The files of one task.

    Args:
        state: of the task.
        table: name of the table with its :class:`PartFile` entries.
    """

    def __init__(self, state: TaskState, table: str) -> None:
        self._state = state
        self._complete = state.complete
        self._until: list[tuple[int, bytes]] = []
        self._open: dict[bytes, float] = {}
        self._new: list[bytes] = []
        self.closed: dict[bytes, int] = {}
        """Key of a closed file → end of its rows' stretch of event time; the first was closed first."""
        if not self._complete:
            return  # they are read when all have come, and nothing is written before
        with state.table(table).items() as entries:
            for key, file in entries:
                if file.closed:
                    self.closed[key] = file.until
                else:
                    self.add(key, file.until)

    def is_of(self, state: TaskState) -> bool:
        """Whether it is that of this state, and none of it came only after it was read."""
        return self._state is state and self._complete == state.complete

    def add(self, key: bytes, until: int) -> None:
        """A file is open."""
        if key not in self._open:
            self._open[key] = float("inf")
            self._new.append(key)
            heappush(self._until, (until, key))

    def close(self, key: bytes, closed: bytes, until: int) -> None:
        """A file was closed; it goes on under another key."""
        self._open.pop(key, None)
        self.closed[closed] = until

    @property
    def earliest(self) -> int | None:
        """The earliest end of an open file's stretch of event time."""
        while self._until and self._until[0][1] not in self._open:
            heappop(self._until)
        return self._until[0][0] if self._until else None

    def ended(self, watermark_ms: int, most: int) -> list[bytes]:
        """Open files, ``most`` of them, whose stretch of event time is over; they are not given again."""
        found: dict[bytes, None] = {}
        while len(found) < most and (until := self.earliest) is not None and until <= watermark_ms:
            found[heappop(self._until)[1]] = None
        return list(found)

    def aged(self, now_s: float, age_s: float) -> list[bytes]:
        """Files that have been open for so long here, as far as was looked."""
        for key in self._new:
            if key in self._open:
                self._open[key] = now_s
        self._new.clear()
        found: list[bytes] = []
        for key, since_s in self._open.items():
            if now_s - since_s < age_s:
                break
            found.append(key)
        return found
