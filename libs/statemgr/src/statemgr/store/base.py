"""What a task's store is, whatever keeps its bytes.

A store holds the committed state of one task at one epoch: entries (store key → bytes) and one meta record that
says up to which changelog offset they are complete. Entries and meta change together in one atomic batch or not at
all, so that a store is always a base of the recovery formula *state = base @ X ⊕ changelog (X, end]*.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

import msgspec

from statemgr.codecs import UNREADABLE
from statemgr.errors import CodecError
from statemgr.progress import Progress
from statemgr.types import TaskId

META_FORMAT = 1
"""Format of the meta record and of the entries beside it."""

META_KEY = b"\x00"
"""Key of the meta record: shorter than any store key (1 byte bin + 2 bytes table), so that no entry can meet it."""

UNFINISHED_KEY = b"\x03"
"""Key of a mark: the entries are not those of the store's X yet, but a mixture that the changelog's tail makes exact.

Set by reading a changelog in several batches, and by a copy of a store in use; the batch that ends a tail removes it.
"""

OWN_KEY_BYTES = 1
"""Length of the keys of a store's own records: meta, migration record, hot set, mark; every entry's key is longer."""

EMPTY_OFFSET = -1
"""Changelog offset of a store that is complete up to the very beginning."""

Entry = tuple[bytes, bytes | None]
"""A key with its new value; None deletes the key."""


class StoreMeta(msgspec.Struct, frozen=True):
    """How far a store is complete, and whose it is (R12).

    Attributes:
        topic_id: id of the changelog topic; a topic made anew under the same name has another.
        offset: the store is complete up to and including this changelog offset; -1 = empty.
        committed_at_ms: wall clock in ms since the Unix epoch when this was known to be complete.
        epoch: the owner's epoch.
        progress: the last progress record at or below ``offset``; None before the first.
        format: format of meta and entries.
    """

    topic_id: str
    offset: int
    committed_at_ms: int
    epoch: int
    progress: Progress | None
    format: int = META_FORMAT


class StoreSize(NamedTuple):
    """How large a store is, estimated: its entries, and the bytes that these take where the store keeps them."""

    entries: int
    bytes: int


class Store(Protocol):
    """The committed state of one task; used by one thread at a time."""

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """Values in the order of the keys; None where a key is absent.

        Raises:
            CorruptStoreError: the bytes on disk are damaged.
            StoreClosedError: the store is closed.
        """
        ...

    def write(self, entries: Iterable[Entry], meta: StoreMeta) -> None:
        """Apply entries and meta as one atomic batch; the last of several entries with one key wins.

        Raises:
            StoreWriteError: the store can't be used further; its entries and meta still agree.
            StoreClosedError: the store is closed.
        """
        ...

    def put_raw(self, entries: Iterable[Entry]) -> None:
        """Apply entries as one atomic batch that leaves the meta record as it is.

        For state that arrives from another copy: it completes what the store has, but says nothing new of the
        changelog. Everything else goes through :meth:`write`.

        Raises:
            StoreWriteError: the store can't be used further.
            StoreClosedError: the store is closed.
        """
        ...

    def meta(self) -> StoreMeta | None:
        """Meta of the last :meth:`write`; None before the first.

        Raises:
            CorruptStoreError: the bytes on disk are damaged.
            IncompatibleStoreError: another format wrote it.
        """
        ...

    def scan(self, prefix: bytes = b"") -> AbstractContextManager[Iterator[tuple[bytes, bytes]]]:
        """Entries whose key starts with ``prefix`` in key order, as of the moment of entering.

        Never the store's own records (meta, migration record, hot set), which :meth:`get_many` reads.

        A scan pins memory and the store's lock, hence a context manager.
        """
        ...

    def size(self) -> StoreSize:
        """How large it is about; asks for no entry, so it takes some microseconds.

        Raises:
            StoreClosedError: the store is closed.
        """
        ...

    def close(self) -> None:
        """Free lock and memory; closing twice is allowed.

        Raises:
            OpenScanError: a scan is live; the store stays open.
        """
        ...


class StoreBackend(Protocol):
    """Opens, lists and deletes the stores of one replica."""

    def open(self, task: TaskId, epoch: int, *, filling: bool = False) -> Store:
        """Open a store; it is created when absent.

        Args:
            task: whose.
            epoch: its epoch.
            filling: for a restore: much is written and nothing is read but the meta record. What was written may be
                lost with the process, but only the last batches of it, until :meth:`filled`.

        Raises:
            StoreLockedError: another holder has it open.
            CorruptStoreError: it cannot be read.
            StoreWriteError: there is no room to open it; what it holds is whole.
            IncompatibleStoreError: it was written with another format or other options.
        """
        ...

    def filled(self, stores: Sequence[tuple[TaskId, int]]) -> list[Store]:
        """End the filling of stores that are open for it: all that was written is kept, and they are open for use.

        Raises:
            StoreWriteError: a store can't be used further.
        """
        ...

    def existing(self, task: TaskId) -> list[int]:
        """Epochs of which the task has a store here, ascending."""
        ...

    def fork(self, task: TaskId, source: int, target: int) -> None:
        """Make a store of epoch ``target`` with the content of ``source``, atomically; both are closed (R8).

        A store that ``target`` has already is replaced.
        """
        ...

    def destroy(self, task: TaskId, epoch: int) -> None:
        """Delete a closed store; an absent one is fine.

        Raises:
            StoreLockedError: it is open, here or elsewhere.
        """
        ...

    def describe(self, task: TaskId, epoch: int) -> str:
        """Where the store is and how large, for messages."""
        ...

    def close(self) -> None:
        """Close every store that is still open."""
        ...


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(StoreMeta)


def encode_meta(meta: StoreMeta) -> bytes:
    """The meta record's bytes."""
    return _ENCODER.encode(meta)


def decode_meta(data: bytes) -> StoreMeta:
    """Inverse of :func:`encode_meta`.

    Raises:
        CodecError: the bytes are not a meta record.
    """
    try:
        return _DECODER.decode(data)
    except UNREADABLE as error:
        raise CodecError(f"not a store's meta record: {error}") from error
