"""Rows that wait for their key's state (R1), and which rows of a former owner's range are still to be done.

::

    row ──▶ below ``high`` of the former owner, and not one of its parked rows? ── yes ─▶ dropped: done already
        └─▶ its key waits, or its state is elsewhere? ── yes ─▶ parked, behind the key's other rows
        └─▶ else: goes on

Pure: rows are numbered by *tickets*, and whoever processes them keeps them under these numbers. A key is any bytes
that name one entry of state; the runtime uses store keys. A commit never waits for a fetch: what is parked is written
down in the progress record, and a next owner reads it again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from statemgr.progress import InputProgress
from statemgr.types import Position
from towpath.stage.past import Past, key_text

PARKED_ROWS = 50_000
"""Most parked rows of a task: at 1 kB each 50 MB, and eight tasks that arrive at once stay below half a gigabyte."""

HELD_BYTES = 64 * 1024 * 1024
"""Most bytes of a task's parked rows in memory, where rows are larger than that: half a gigabyte for eight tasks."""

PARKED_BYTES = 200 * 1024
"""Most bytes of a task's parked keys in its progress record. The record may have 256 KiB, so that it is well below
Kafka's limit of 1 MB and four such records a second stay below 1 MB/s; 56 KiB are left for the rest of it."""

_ENTRY_BYTES = 40
"""A parked key's cost beside its text: ``:[offset,row],`` with 19 and 10 digits are 34 bytes."""


class Admission(NamedTuple):
    """What becomes of rows, by their places among those that were given; the others are dropped.

    Attributes:
        go: to be processed now.
        park: to be kept under the tickets ``first_ticket``, ``first_ticket + 1``, …
        first_ticket: ticket of the first parked row.
        missing: keys to be fetched, each once.
        stop: offset of the first record that there was no room for: no row from it on was taken. None: all were.
    """

    go: Sequence[int]
    park: Sequence[int] = ()
    first_ticket: int = 0
    missing: Sequence[bytes] = ()
    stop: int | None = None


@dataclass
class _Waiting:
    """A parked key: its rows, its first one in each topic, bytes in the progress record and in memory."""

    tickets: list[int] = field(default_factory=list)
    first: dict[str, Position] = field(default_factory=dict)
    cost: int = 0
    held: int = 0


class Parking:
    """The parked rows of one task.

    Args:
        past: topic → the former owner's progress; the task reads from its ``low``.
        most_rows: see :data:`PARKED_ROWS`.
        most_bytes: see :data:`PARKED_BYTES`.
        most_held: see :data:`HELD_BYTES`.
    """

    def __init__(
        self,
        past: Mapping[str, InputProgress] | None = None,
        *,
        most_rows: int = PARKED_ROWS,
        most_bytes: int = PARKED_BYTES,
        most_held: int = HELD_BYTES,
    ) -> None:
        self._past = {topic: Past.of(item) for topic, item in (past or {}).items() if item.low < item.high}
        self._most_rows = most_rows
        self._most_bytes = most_bytes
        self._most_held = most_held
        # Keys that the former owner parked are in the progress record until reading has passed them. Those of the
        # topic that is read count nothing, since no others are parked from it meanwhile.
        self._reserved = {topic: sum(map(_cost, past.parked)) for topic, past in self._past.items()}
        self._waiting: dict[bytes, _Waiting] = {}
        self._ready: dict[bytes, None] = {}
        self._refused: set[bytes] = set()
        self._next_ticket = 0
        self._rows = 0
        self._bytes = 0
        self._held = 0

    @property
    def rows(self) -> int:
        """Parked rows."""
        return self._rows

    @property
    def keys(self) -> Collection[bytes]:
        """Keys that have parked rows."""
        return self._waiting.keys()

    @property
    def full(self) -> bool:
        """Whether a record found no room: the partition is to be paused until the keys of that record are there."""
        return bool(self._refused)

    @property
    def ready(self) -> bool:
        """Whether the state of rows that waited has come."""
        return bool(self._ready)

    def idle(self, positions: Mapping[str, int]) -> bool:
        """Whether nothing is left to do: no parked row, and reading is past what the former owner had read.

        Args:
            positions: topic → next offset to be read.
        """
        return not self._waiting and all(positions[topic] >= past.high for topic, past in self._past.items())

    def replayed(self, topic: str, offset: int) -> bool:
        """Whether the former owner has read this record: whatever does not depend on state has been done for it."""
        past = self._past.get(topic)
        return past is not None and offset < past.high

    def passes(self, topic: str, offset: int) -> bool:
        """Whether rows from this offset on need no look at their keys but for state that is elsewhere."""
        return not self._waiting and not self.replayed(topic, offset)

    def admit(
        self,
        topic: str,
        keys: Sequence[bytes],
        positions: Sequence[Position],
        elsewhere: Callable[[list[bytes]], Collection[bytes]],
        row_bytes: Callable[[], int] = lambda: 0,
    ) -> Admission:
        """Decide about rows as they come from the input.

        Args:
            topic: where they come from.
            keys: key of each row.
            positions: position of each row, ascending; a record's rows come together.
            elsewhere: which of these (distinct) keys have their state elsewhere.
            row_bytes: about how many bytes one of these rows takes in memory; asked for only if one has to wait.
        """
        rows = self._undone(topic, keys, positions)
        distinct = dict.fromkeys(keys[row] for row in rows)
        blocked = set(elsewhere([key for key in distinct if key not in self._waiting]))
        blocked.update(filter(self._waiting.__contains__, distinct))
        if not blocked:
            return Admission(rows)
        size = row_bytes()
        stop = self._room(topic, keys, positions, [row for row in rows if keys[row] in blocked], size)
        taken = rows if stop is None else [row for row in rows if positions[row].offset < stop]
        park = [row for row in taken if keys[row] in blocked]
        missing = dict.fromkeys(key for row in park if (key := keys[row]) not in self._waiting)
        if stop is not None:
            missing |= dict.fromkeys(key for key in self._refused if key not in self._waiting)
        first_ticket = self._next_ticket
        for row in park:
            self._park(topic, keys[row], positions[row], size)
        return Admission([row for row in taken if keys[row] not in blocked], park, first_ticket, list(missing), stop)

    def resolved(self, keys: Collection[bytes]) -> None:
        """The state of these keys is here: their rows can be taken."""
        for key in keys:
            self._refused.discard(key)
            if key in self._waiting:
                self._ready[key] = None

    def resolve_all(self) -> None:
        """All state is here."""
        self._ready = dict.fromkeys(self._waiting)
        self._refused.clear()

    def take(self, most_rows: int) -> list[int]:
        """Tickets, ascending, of rows that are to be processed now; their keys are not parked any more.

        Args:
            most_rows: about how many; the rows of a key are taken together, and those of one key at least.
        """
        tickets: list[int] = []
        while self._ready and len(tickets) < most_rows:
            key = next(iter(self._ready))
            del self._ready[key]
            self._refused.discard(key)
            item = self._waiting.pop(key)
            tickets += item.tickets
            self._bytes -= item.cost
            self._held -= item.held
        self._rows -= len(tickets)
        return sorted(tickets)

    def progress(self, topic: str, position: int, topic_id: str = "") -> InputProgress:
        """What the progress record says of one input.

        Args:
            topic: the input.
            position: next offset to be read.
            topic_id: id of the topic.
        """
        first = {key: item.first[topic] for key, item in self._waiting.items() if topic in item.first}
        past, high = self._past.get(topic), position
        if past is not None and position < past.high:
            high = past.high
            unread = Position(position)
            first = {key: max(at, unread) for key, at in past.parked.items()} | first
        low = min((at.offset for at in first.values()), default=high)
        parked = {key_text(key): (at.offset, at.row) for key, at in first.items()}
        return InputProgress(low=low, high=high, parked=parked, topic_id=topic_id)

    def _undone(self, topic: str, keys: Sequence[bytes], positions: Sequence[Position]) -> Sequence[int]:
        """Rows that no former owner has processed."""
        if not positions or not self.replayed(topic, positions[0].offset):
            self._reserved.pop(topic, None)
            return range(len(keys))
        past = self._past[topic]
        return [row for row, key in enumerate(keys) if past.admits(key, positions[row])]

    def _has(self, topic: str, key: bytes) -> bool:
        """Whether the progress record names the key for this topic."""
        item = self._waiting.get(key)
        return item is not None and topic in item.first

    def _room(
        self, topic: str, keys: Sequence[bytes], positions: Sequence[Position], rows: Sequence[int], size: int
    ) -> int | None:
        """Offset of the first record whose blocked rows find no room; its keys are noted as refused."""
        left_rows = self._most_rows - self._rows
        if size:
            left_rows = min(left_rows, (self._most_held - self._held) // size)
        left_bytes = self._most_bytes - self._bytes - sum(self._reserved.values()) + self._reserved.get(topic, 0)
        seen: set[bytes] = set()
        for row in rows:
            left_rows -= 1
            key = keys[row]
            if key not in seen and not self._has(topic, key):
                seen.add(key)
                left_bytes -= _cost(key)
            if left_rows < 0 or left_bytes < 0:
                stop = positions[row].offset
                self._refused |= {keys[other] for other in rows if positions[other].offset == stop}
                return stop
        return None

    def _park(self, topic: str, key: bytes, position: Position, size: int) -> None:
        item = self._waiting.get(key)
        if item is None:
            item = self._waiting[key] = _Waiting()
        if topic not in item.first:
            item.first[topic] = position
            item.cost += _cost(key)
            self._bytes += _cost(key)
        item.held += size
        self._held += size
        item.tickets.append(self._next_ticket)
        self._next_ticket += 1
        self._rows += 1


def _cost(key: bytes) -> int:
    return len(msgspec.json.encode(key_text(key))) + _ENTRY_BYTES
