"""Records as columns, which can be looked at one by one, too."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from towpath_native.cells import Cells
from towpath_native.extension import NATIVE
from towpath_native.memory import array_of

_NO_VALUE, _NO_KEY = 1, 2


class Records(Sequence["Record"]):
    """What one call read, in that order.

    Columns are made when they are asked for. An item is a :class:`Record`, which has the methods of
    ``confluent_kafka.Message``; a slice is Records again, over the same memory.
    """

    def __init__(self, batch: Any, rows: npt.NDArray[np.intp] | None = None) -> None:
        """Look at a batch of the extension: all of it, or the records at these places."""
        self._batch = batch
        self._rows = rows
        self._length = int(batch.records) if rows is None else len(rows)

    def at(self, places: npt.NDArray[Any]) -> Records:
        """The records at these places, over the same memory."""
        return Records(self._batch, np.asarray(places, np.intp) if self._rows is None else self._rows[places])

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> Records: ...

    def __getitem__(self, index: int | slice) -> Record | Records:
        if isinstance(index, slice):
            return self.at(np.arange(*index.indices(self._length)))
        return Record(self, range(self._length)[index])

    def __iter__(self) -> Iterator[Record]:
        return (Record(self, index) for index in range(self._length))

    @cached_property
    def topics(self) -> list[str]:
        """The topics that records come from, each once."""
        return [NATIVE.ffi.string(self._batch.topic_names[at]).decode() for at in range(self._batch.topic_count)]

    @cached_property
    def topic(self) -> npt.NDArray[np.int32]:
        """Each record's topic as a place in :attr:`topics`."""
        return self._array(self._batch.topics, "<i4")

    @cached_property
    def partition(self) -> npt.NDArray[np.int32]:
        """Each record's partition."""
        return self._array(self._batch.partitions, "<i4")

    @cached_property
    def offset(self) -> npt.NDArray[np.int64]:
        """Each record's offset."""
        return self._array(self._batch.offsets, "<i8")

    @cached_property
    def timestamp(self) -> npt.NDArray[np.int64]:
        """Each record's timestamp in ms since the epoch; -1 where it has none."""
        return self._array(self._batch.timestamps, "<i8")

    @cached_property
    def timestamp_kind(self) -> npt.NDArray[np.int8]:
        """What each timestamp is, as confluent-kafka numbers it."""
        return self._array(self._batch.timestamp_kinds, "|i1")

    @cached_property
    def value(self) -> Cells:
        """Values."""
        return self._cells(self._batch.values, self._absent & _NO_VALUE)

    @cached_property
    def key(self) -> Cells:
        """Keys."""
        return self._cells(self._batch.keys, self._absent & _NO_KEY)

    @cached_property
    def header(self) -> Cells:
        """Headers as the extension packs them; :meth:`Record.headers` unpacks them."""
        return self._cells(self._batch.headers, np.zeros(self._length, np.uint8))

    @cached_property
    def _absent(self) -> npt.NDArray[np.uint8]:
        return self._array(self._batch.absent, "|u1")

    def _cells(self, cells: Any, absent: npt.NDArray[Any]) -> Cells:
        begin = self._all(cells.begin, "<i8", int(self._batch.records) + 1)
        every = Cells(self._all(cells.data, "|u1", int(begin[-1])), begin[:-1], begin[1:], absent)
        if self._rows is None:
            return every
        return Cells(every.data, begin[:-1][self._rows], begin[1:][self._rows], absent)

    def _array(self, pointer: Any, kind: str) -> npt.NDArray[Any]:
        every = self._all(pointer, kind, int(self._batch.records))
        return every if self._rows is None else every[self._rows]

    def _all(self, pointer: Any, kind: str, length: int) -> npt.NDArray[Any]:
        return array_of(self._batch, pointer, length, kind)


class Record:
    """One record, with the methods of ``confluent_kafka.Message``."""

    __slots__ = ("_index", "_of")

    def __init__(self, of: Records, index: int) -> None:
        self._of = of
        self._index = index

    def topic(self) -> str:
        """Topic."""
        return self._of.topics[self._of.topic[self._index]]

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
