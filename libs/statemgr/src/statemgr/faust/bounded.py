"""State managers are believed only up to where the changelog stood at the take-over.

A worker that was stopped, has lost its partitions and does not know it yet may still write: to the changelog, which
no group of Faust fences, and so to its own copy. What such a copy says behind the end of the changelog that the new
owner has seen may contain events that the new owner processes, too. So the copy is then no source any more.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from statemgr.errors import NoSuchCopyError
from statemgr.migration.ports import Address, Chunk, Description, KeySet, LookedUp, Pending, StateClient

A = TypeVar("A", LookedUp, Chunk, Description, KeySet)


class BoundedClient:
    """Implements :class:`statemgr.migration.ports.StateClient` over another one.

    Args:
        client: asks.
        last: offset of the changelog's last record at the take-over.
    """

    def __init__(self, client: StateClient, last: int) -> None:
        self._client = client
        self._last = last

    def describe(self, address: Address, at_least: int, timeout_s: float) -> Pending[Description]:
        """See :class:`statemgr.migration.ports.StateClient`."""
        return _Bounded(self._client.describe(address, at_least, timeout_s), address, self._last)

    def look_up(self, address: Address, at_least: int, keys: list[bytes], timeout_s: float) -> Pending[LookedUp]:
        """See :class:`statemgr.migration.ports.StateClient`."""
        return _Bounded(self._client.look_up(address, at_least, keys, timeout_s), address, self._last)

    def hot(self, address: Address, at_least: int, cursor: bytes, timeout_s: float) -> Pending[Chunk]:
        """See :class:`statemgr.migration.ports.StateClient`."""
        return _Bounded(self._client.hot(address, at_least, cursor, timeout_s), address, self._last)

    def bins(
        self, address: Address, at_least: int, first: int, last: int, cursor: bytes, timeout_s: float
    ) -> Pending[Chunk]:
        """See :class:`statemgr.migration.ports.StateClient`."""
        pending = self._client.bins(address, at_least, first, last, cursor, timeout_s)
        return _Bounded(pending, address, self._last)

    def filter(self, address: Address, at_least: int, timeout_s: float) -> Pending[KeySet]:
        """See :class:`statemgr.migration.ports.StateClient`."""
        return _Bounded(self._client.filter(address, at_least, timeout_s), address, self._last)

    def close(self) -> None:
        """Nothing: the client beneath is another's."""


class _Bounded(Generic[A]):
    def __init__(self, pending: Pending[A], address: Address, last: int) -> None:
        self._pending: Pending[A] = pending
        self._address = address
        self._last = last

    def done(self) -> bool:
        return self._pending.done()

    def result(self) -> A:
        answer = self._pending.result()
        offset = _offset_of(answer)
        if offset > self._last:
            layer = self._address.layer
            raise NoSuchCopyError(
                f"copy {self._address.task}@{layer.epoch} of {layer.holder} has gone on to offset {offset}, behind "
                f"{self._last}: a worker that does not own the partition any more still writes there"
            )
        return answer


def _offset_of(answer: LookedUp | Chunk | Description | KeySet) -> int:
    if isinstance(answer, Description):
        return -1 if answer.meta is None else answer.meta.offset
    return answer.offset
