"""One partition in memory: offsets, transaction markers, last stable offset, compaction."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from statemgr.kafka.ports import Bounds, Committed
from statemgr.types import TopicPartition

Headers = tuple[tuple[str, bytes], ...]


class Outcome(Enum):
    """What was decided about a transaction."""

    OPEN = "open"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(eq=False, slots=True)
class Transaction:
    """A transaction of one producer: where it wrote, and the group offsets that wait for its end.

    Attributes:
        owner: transactional id.
        started_s: monotonic time of its first write, from which the time-out counts.
        outcome: as decided by the coordinator; readers see it only when the markers are written.
        due_s: when the markers are written, after the decision.
        partitions: where a marker has to go, in order of first writing.
        offsets: group → partition → offset.
    """

    owner: str
    started_s: float
    outcome: Outcome = Outcome.OPEN
    due_s: float = 0.0
    partitions: list[TopicPartition] = field(default_factory=list)
    offsets: dict[str, dict[TopicPartition, Committed]] = field(default_factory=dict)


@dataclass(slots=True)
class Entry:
    """What occupies one offset: a record, or a transaction marker (``control``)."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    transaction: Transaction | None = None
    control: bool = False


class OutOfRangeError(Exception):
    """A position before the log's start or behind its end."""


class PartitionLog:
    """The log of one partition."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._start = 0
        self._end = 0
        self._open: dict[Transaction, int] = {}

    @property
    def bounds(self) -> Bounds:
        """Log start and high watermark."""
        return Bounds(self._start, self._end)

    @property
    def last_stable(self) -> int:
        """First offset of the first transaction without a marker, else the end."""
        return min(self._open.values(), default=self._end)

    @property
    def entries(self) -> Sequence[Entry]:
        """All entries that are still there, markers included: for a test's eyes."""
        return tuple(self._entries)

    def append(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: Headers,
        timestamp_ms: int,
        transaction: Transaction | None = None,
    ) -> int:
        """Append a record; returns its offset."""
        offset = self._end
        if transaction is not None:
            self._open.setdefault(transaction, offset)
        self._entries.append(Entry(offset, key, value, headers, timestamp_ms, transaction))
        self._end += 1
        return offset

    def mark(self, transaction: Transaction, timestamp_ms: int) -> None:
        """Append the marker that ends a transaction here."""
        self._open.pop(transaction, None)
        self._entries.append(Entry(self._end, None, None, (), timestamp_ms, transaction, control=True))
        self._end += 1

    def read(self, position: int, limit: int, *, read_committed: bool) -> tuple[list[Entry], int]:
        """Records from ``position`` on, at most ``limit``, and the position after them.

        The position passes markers, aborted records and compacted offsets, and for read_committed stops at the last
        stable offset.

        Raises:
            OutOfRangeError: ``position`` is outside the log.
        """
        if not self._start <= position <= self._end:
            raise OutOfRangeError
        bound = self.last_stable if read_committed else self._end
        found: list[Entry] = []
        for index in range(bisect_left(self._entries, position, key=_offset), len(self._entries)):
            entry = self._entries[index]
            if entry.offset >= bound:
                break
            if entry.control or (read_committed and _aborted(entry)):
                continue
            if len(found) == limit:
                return found, found[-1].offset + 1 if found else position
            found.append(entry)
        return found, max(position, bound)

    def compact(self, *, drop_tombstones: bool = False) -> None:
        """Keep the last value of each key below the last stable offset; aborted records and their markers go.

        Args:
            drop_tombstones: also remove the tombstones, as if ``delete.retention.ms`` had passed.
        """
        bound = self.last_stable
        last = {entry.key: entry.offset for entry in self._entries if entry.offset < bound and _is_data(entry)}
        self._entries = [
            entry
            for entry in self._entries
            if entry.offset >= bound
            or (_is_data(entry) and last[entry.key] == entry.offset and not (drop_tombstones and entry.value is None))
        ]

    def delete_before(self, offset: int) -> None:
        """Move the log's start, as retention does."""
        self._start = min(max(offset, self._start), self._end)
        self._entries = [entry for entry in self._entries if entry.offset >= self._start]

    def truncate(self, records: int) -> None:
        """Lose the last offsets, as an unclean broker does. Transactions keep the outcome they had."""
        self._end = max(self._end - records, self._start)
        self._entries = [entry for entry in self._entries if entry.offset < self._end]
        self._open = {transaction: first for transaction, first in self._open.items() if first < self._end}


def _offset(entry: Entry) -> int:
    return entry.offset


def _aborted(entry: Entry) -> bool:
    return entry.transaction is not None and entry.transaction.outcome is not Outcome.COMMITTED


def _is_data(entry: Entry) -> bool:
    return not entry.control and not _aborted(entry)
