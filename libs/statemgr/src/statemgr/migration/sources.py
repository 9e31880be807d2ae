"""Where state comes from: copies at other holders, and the scratch base; asked alike, without waiting."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from statemgr.control.records import Layer
from statemgr.errors import NoSuchCopyError
from statemgr.layout import TOMBSTONE_TABLE
from statemgr.migration.ports import Address, Chunk, Description, Found, KeySet, LookedUp, Pending, StateClient
from statemgr.migration.record import ALL_BINS, NO_BINS
from statemgr.store.base import Store
from statemgr.types import TaskId

T = TypeVar("T")

LOOK_UP_TIMEOUT_S = 0.25
"""A row waits for this; a healthy holder needs 5 ms (R21)."""

CHUNK_TIMEOUT_S = 2.0
"""A chunk of 256 KiB: nobody waits for it, but a holder that opens its secondary for it needs 0.3 s and more."""

FILTER_TIMEOUT_S = 5.0
"""A filter of 8 M keys; of more there is none, and look-ups tell the same."""

CHUNK_BYTES = 256 * 1024
"""Size of a chunk that the scratch base gives."""


@dataclass(frozen=True)
class UsableLayer:
    """A copy that may be asked.

    Attributes:
        layer: holder and epoch.
        offset: its X, at least: answers from before it are refused. -1: not known; its holder is then asked for it
            first, because a state manager may have an old view of the copy.
        complete: bitmap of bins for which it needs no deeper layer, as far as is known. Only a hint for how to ask:
            every answer says how it is.
        least: the X that it must have to go with the layer above it, whatever its holder says; see
            :attr:`statemgr.migration.record.MigrationRecord.beneath`.
    """

    layer: Layer
    offset: int = -1
    complete: bytes = NO_BINS
    least: int = -1

    @property
    def wanted(self) -> int:
        """Answers from before this offset are refused."""
        return max(self.offset, self.least)


class Source(Protocol):
    """What a migration asks."""

    @property
    def name(self) -> str:
        """For messages."""
        ...

    @property
    def hint(self) -> bytes:
        """Bitmap of bins that it is known to be complete for."""
        ...

    def look_up(self, keys: list[bytes]) -> Pending[LookedUp]:
        """See :meth:`statemgr.migration.ports.StateClient.look_up`."""
        ...

    def bins(self, first: int, last: int, cursor: bytes) -> Pending[Chunk]:
        """See :meth:`statemgr.migration.ports.StateClient.bins`."""
        ...

    def answers(self, answer: LookedUp | Chunk) -> bool:
        """Whether an answer is of the copy that was asked, and as new as it must be (R8)."""
        ...


class HolderSource:
    """A copy at a holder, asked for one owner."""

    def __init__(self, client: StateClient, task: TaskId, target: int, usable: UsableLayer) -> None:
        self._client = client
        self._address = Address(task, usable.layer, target)
        self._usable = usable
        self._known = usable.offset >= 0

    @property
    def name(self) -> str:
        """See :class:`Source`."""
        layer = self._usable.layer
        return f"{layer.holder}@{layer.epoch}" + (f" at {layer.address}" if layer.address else "")

    @property
    def hint(self) -> bytes:
        """See :class:`Source`."""
        return self._usable.complete

    @property
    def known(self) -> bool:
        """Whether its X is known."""
        return self._known

    def describe(self) -> Pending[Description]:
        """Ask for its X."""
        return self._client.describe(self._address, self._usable.least, CHUNK_TIMEOUT_S)

    def require(self, offset: int) -> None:
        """It must have come so far to go with the layer above it."""
        self._usable = replace(self._usable, least=max(self._usable.least, offset))

    def learn(self, description: Description) -> None:
        """Take up its X.

        Raises:
            NoSuchCopyError: nothing was ever written to the copy.
        """
        if description.meta is None:
            raise NoSuchCopyError(f"nothing was ever written to the copy {self.name}")
        self._usable = replace(self._usable, offset=description.meta.offset, complete=description.complete)
        self._known = True

    def look_up(self, keys: list[bytes]) -> Pending[LookedUp]:
        """See :class:`Source`."""
        return self._client.look_up(self._address, self._usable.wanted, keys, LOOK_UP_TIMEOUT_S)

    def hot(self, cursor: bytes) -> Pending[Chunk]:
        """See :meth:`statemgr.migration.ports.StateClient.hot`."""
        return self._client.hot(self._address, self._usable.wanted, cursor, CHUNK_TIMEOUT_S)

    def bins(self, first: int, last: int, cursor: bytes) -> Pending[Chunk]:
        """See :class:`Source`."""
        return self._client.bins(self._address, self._usable.wanted, first, last, cursor, CHUNK_TIMEOUT_S)

    def filter(self) -> Pending[KeySet]:
        """See :meth:`statemgr.migration.ports.StateClient.filter`."""
        return self._client.filter(self._address, self._usable.wanted, FILTER_TIMEOUT_S)

    def answers(self, answer: LookedUp | Chunk | KeySet) -> bool:
        """See :class:`Source`."""
        return answer.epoch == self._usable.layer.epoch and answer.offset >= self._usable.wanted


class ScratchSource:
    """A complete base in a store of this replica: knows every key, value or absent.

    Args:
        store: the base; closed by :meth:`close`.
        epoch: the owner's epoch.
        offset: changelog offset up to which it is complete.
        discard: deletes the store once it is closed.
    """

    def __init__(self, store: Store, epoch: int, offset: int, discard: Callable[[], None] = lambda: None) -> None:
        self._store = store
        self._epoch = epoch
        self._offset = offset
        self._discard = discard
        self._bin = -1
        self._pairs: list[tuple[bytes, bytes]] = []

    def look_up(self, keys: list[bytes]) -> Pending[LookedUp]:
        """See :class:`Source`; done at once."""
        values = self._store.get_many(keys)
        found = tuple(Found.ABSENT if value is None else value for value in values)
        return Ready(LookedUp(self._epoch, self._offset, found))

    def bins(self, first: int, last: int, cursor: bytes) -> Pending[Chunk]:
        """See :class:`Source`; done at once."""
        bin_ = cursor[0] if cursor else first
        self._read(bin_)
        begin = bisect_left(self._pairs, (cursor, b""))
        end, size = begin, 0
        while end < len(self._pairs) and size < CHUNK_BYTES:
            size += len(self._pairs[end][0]) + len(self._pairs[end][1])
            end += 1
        if end < len(self._pairs):
            following: bytes | None = self._pairs[end][0]
        else:
            following = bytes((bin_ + 1,)) if bin_ < last else None
        return Ready(Chunk(self._epoch, self._offset, tuple(self._pairs[begin:end]), following, complete=True))

    def answers(self, answer: LookedUp | Chunk) -> bool:
        """See :class:`Source`."""
        return answer.epoch == self._epoch

    @property
    def name(self) -> str:
        """See :class:`Source`."""
        return "the scratch base"

    @property
    def hint(self) -> bytes:
        """See :class:`Source`."""
        return ALL_BINS

    def close(self) -> None:
        """Close the store and delete it: what is in it is of no use any more."""
        self._pairs = []
        self._store.close()
        self._discard()

    def _read(self, bin_: int) -> None:
        if bin_ != self._bin:
            with self._store.scan(bytes((bin_,))) as pairs:
                self._pairs = [pair for pair in pairs if not pair[0].startswith(_TOMBSTONE, 1)]
            self._bin = bin_


class Ready(Generic[T]):
    """A :class:`~statemgr.migration.ports.Pending` that has come."""

    def __init__(self, value: T) -> None:
        self._value = value

    def done(self) -> bool:
        """Always."""
        return True

    def result(self) -> T:
        """The answer."""
        return self._value


_TOMBSTONE = TOMBSTONE_TABLE.to_bytes(2, "big")
