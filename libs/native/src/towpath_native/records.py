"""Records as columns, which can be looked at one by one, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from towpath_native.cells import Cells
from towpath_native.message import Message


@dataclass(frozen=True, eq=False)
class Records(Sequence["Record"]):
    """Records in the order in which they were read. An item is a :class:`Record`, a slice is Records again.

    Attributes:
        topics: the topics that records come from, each once.
        topic: int32 array, each record's topic as a place in ``topics``.
        partition: int32 array.
        offset: int64 array.
        timestamp: int64 array, ms since the epoch; -1 where a record has none.
        timestamp_kind: int8 array, what each timestamp is, as confluent-kafka numbers it.
        key: keys.
        value: values.
        header: headers, packed; :meth:`Record.headers` unpacks them.
    """

    topics: Sequence[str]
    topic: npt.NDArray[np.int32]
    partition: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    timestamp: npt.NDArray[np.int64]
    timestamp_kind: npt.NDArray[np.int8]
    key: Cells
    value: Cells
    header: Cells

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Records:
        """These records as columns."""
        topics = list(dict.fromkeys(message.topic() for message in messages))
        stamps = [message.timestamp() for message in messages]
        return cls(
            topics,
            np.array([topics.index(message.topic()) for message in messages], np.int32),
            np.array([message.partition() for message in messages], np.int32),
            np.array([message.offset() for message in messages], np.int64),
            np.array([stamp for _, stamp in stamps], np.int64),
            np.array([kind for kind, _ in stamps], np.int8),
            Cells.of([message.key() for message in messages]),
            Cells.of([message.value() for message in messages]),
            Cells.of([_packed(message.headers() or ()) for message in messages]),
        )

    def at(self, places: npt.NDArray[Any]) -> Records:
        """The records at these places, over the same memory."""
        return Records(
            self.topics,
            self.topic[places],
            self.partition[places],
            self.offset[places],
            self.timestamp[places],
            self.timestamp_kind[places],
            self.key.at(places),
            self.value.at(places),
            self.header.at(places),
        )

    def __len__(self) -> int:
        return len(self.offset)

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> Records: ...

    def __getitem__(self, index: int | slice) -> Record | Records:
        if isinstance(index, slice):
            return self.at(np.arange(*index.indices(len(self))))
        return Record(self, range(len(self))[index])

    def __iter__(self) -> Iterator[Record]:
        return (Record(self, index) for index in range(len(self)))


class Record:
    """One record, with the methods of ``confluent_kafka.Message``."""

    __slots__ = ("_index", "_of")

    def __init__(self, of: Records, index: int) -> None:
        self._of = of
        self._index = index

    def topic(self) -> str:
        """Topic."""
        return self._of.topics[int(self._of.topic[self._index])]

    def partition(self) -> int:
        """Partition."""
        return int(self._of.partition[self._index])

    def offset(self) -> int:
        """Offset."""
        return int(self._of.offset[self._index])

    def key(self) -> bytes | None:
        """Key."""
        return self._of.key[self._index]

    def value(self) -> bytes | None:
        """Value."""
        return self._of.value[self._index]

    def timestamp(self) -> tuple[int, int]:
        """Kind, and milliseconds since the epoch."""
        return int(self._of.timestamp_kind[self._index]), int(self._of.timestamp[self._index])

    def headers(self) -> list[tuple[str, bytes]] | None:
        """Names and values; None if there are none."""
        packed = self._of.header[self._index]
        return list(_unpacked(packed)) if packed else None


def _packed(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """Name's length, name, value's length or -1, value; lengths in four bytes, little-endian."""
    parts: list[bytes] = []
    for name, value in headers:
        text = name.encode()
        parts += [len(text).to_bytes(4, "little"), text]
        parts += [(-1 if value is None else len(value)).to_bytes(4, "little", signed=True), value or b""]
    return b"".join(parts)


def _unpacked(packed: bytes) -> Iterator[tuple[str, Any]]:
    at = 0
    while at < len(packed):
        size = int.from_bytes(packed[at : at + 4], "little")
        name = packed[at + 4 : at + 4 + size].decode()
        at += 4 + size
        size = int.from_bytes(packed[at : at + 4], "little", signed=True)
        at += 4
        yield name, None if size < 0 else packed[at : at + size]
        at += max(size, 0)
