"""How the records of a table's changelog become entries of its store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from statemgr import layout
from statemgr.store.base import Entry

TABLE = (0).to_bytes(2, "big")
"""A changelog of Faust has one table, so its entries all have the same table id in a store."""

_BEFORE_KEY = 1 + len(TABLE)


class Record(NamedTuple):
    """A record of a changelog, or a change that is in none (offset -1)."""

    key: bytes
    value: bytes | None
    offset: int
    timestamp_ms: int


Known = Callable[[Sequence[bytes]], list[bytes | None]]
"""Gives the values of store keys as they are before the records that are applied."""


class Image(Protocol):
    """A table's way from records to entries.

    Attributes:
        adds: whether a record adds to what is there, instead of replacing it.
    """

    adds: bool

    def store_key(self, key: bytes) -> bytes:
        """Where the value of a table's key lies."""
        ...

    def key_of(self, stored: bytes) -> bytes:
        """Inverse of :meth:`store_key`."""
        ...

    def entries(self, records: Sequence[Record], known: Known) -> list[Entry]:
        """What these records make of the store."""
        ...


class Values:
    """Tables whose records say the newest value of a key: all but tables of sets."""

    adds = False

    def store_key(self, key: bytes) -> bytes:
        """See :class:`Image`."""
        return store_key(key)

    def key_of(self, stored: bytes) -> bytes:
        """See :class:`Image`."""
        return stored[_BEFORE_KEY:]

    def entries(self, records: Sequence[Record], known: Known) -> list[Entry]:  # noqa: ARG002 - others add to it
        """See :class:`Image`."""
        return [(store_key(each.key), each.value) for each in records]


def store_key(key: bytes) -> bytes:
    """Store key of a table's key: bin, table, key."""
    return layout.store_key(TABLE + key)
