"""Columns of text that are slices of a shared byte source, and how they are copied fast.

NumPy copies an element of a void dtype by one ``memcpy``. Viewing a byte array as overlapping elements of a
fixed width, one starting at every byte, therefore turns "copy a slice for each row" into one fancy index,
at some 5 ns a row whatever the width. Slices shorter than the width copy a few bytes too many; the writers
below either overwrite those bytes afterwards or use a width that no slice falls short of.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import pyarrow as pa

from nexmark.arrays import ByteArray, IntArray, VoidArray

MARGIN = 1024
"""Unused bytes before and after every source, so that copies wider than a slice stay inside the array.

The widest slice is an auction's padding (534 bytes); the literal and number after it have under 40.
"""


def windows(buffer: ByteArray, width: int) -> VoidArray:
    """Views ``buffer`` as overlapping elements of ``width`` bytes, element i starting at byte i."""
    return np.ndarray((buffer.size - width + 1,), dtype=f"V{width}", buffer=buffer.data, strides=(1,))


def new_source(size: int) -> tuple[ByteArray, ByteArray]:
    """A zeroed source with margins, and the view of ``size`` bytes between them."""
    source = np.zeros(size + 2 * MARGIN, dtype=np.uint8)
    return source, source[MARGIN : MARGIN + size]


@dataclass(frozen=True, slots=True)
class Text:
    """One slice per row of a byte source.

    Attributes:
        source: ASCII bytes with ``MARGIN`` bytes of slack at both ends.
        start: Position of each slice in ``source``.
        length: Bytes in each slice.
        shortest: No slice is shorter (a bound, not necessarily reached).
        longest: No slice is longer.
    """

    source: ByteArray
    start: IntArray
    length: IntArray
    shortest: int
    longest: int

    def ending(self, width: int, beyond: int = 0) -> VoidArray:
        """The ``width`` bytes up to the end of each slice, then ``beyond`` more, as fresh elements."""
        first = self.start + self.length
        first -= width
        elements: VoidArray = windows(self.source, width + beyond)[first]
        return elements

    def write_exactly(self, out: ByteArray, to: IntArray) -> None:
        """Copies each slice to position ``to`` of ``out``, touching no other byte.

        Uses overlapping pieces of the shortest length, which is cheap if the longest is a small multiple.
        """
        width = self.shortest
        source, target = windows(self.source, width), windows(out, width)
        for skipped in range(0, self.longest, width):
            shift = np.minimum(self.length - width, skipped)
            target[to + shift] = source[self.start + shift]

    def write_ascending(self, out: ByteArray, to: IntArray) -> None:
        """Copies each slice to ``to`` (ascending), clobbering up to ``longest`` bytes from there.

        NumPy assigns in index order, so what one row clobbers the next row repairs.
        """
        windows(out, self.longest)[to] = windows(self.source, self.longest)[self.start]


class Choices:
    """A fixed list of strings, from which rows are picked by index."""

    __slots__ = ("_lengths", "_longest", "_shortest", "_source", "_starts")

    def __init__(self, strings: Sequence[str]) -> None:
        encoded = [s.encode("ascii") for s in strings]
        joined = b"".join(encoded)
        self._source, inside = new_source(len(joined))
        inside[:] = np.frombuffer(joined, dtype=np.uint8)
        self._lengths = np.array([len(s) for s in encoded], dtype=np.int64)
        self._starts = np.cumsum(self._lengths) - self._lengths + MARGIN
        self._shortest, self._longest = int(self._lengths.min()), int(self._lengths.max())

    def pick(self, index: IntArray) -> Text:
        """The strings at ``index``."""
        return Text(self._source, self._starts.take(index), self._lengths.take(index), self._shortest, self._longest)


class Pool:
    """A long random text, from which rows take slices."""

    __slots__ = ("_source", "size")

    def __init__(self, characters: ByteArray) -> None:
        self.size = characters.size
        self._source, inside = new_source(self.size)
        inside[:] = characters

    @property
    def characters(self) -> ByteArray:
        """The pool without margins."""
        return self._source[MARGIN : MARGIN + self.size]

    def slices(self, offset: IntArray, length: IntArray, shortest: int, longest: int) -> Text:
        """Slices at ``offset`` of the pool, with the given bounds on their lengths."""
        return Text(self._source, offset + MARGIN, length, shortest, longest)


@dataclass(frozen=True, slots=True)
class Packed:
    """Text of many rows in one buffer, row after row.

    Attributes:
        source: The bytes; ``MARGIN`` bytes of slack at both ends.
        starts: Position of each row and, last, the end of the last row.
    """

    source: ByteArray
    starts: IntArray

    @classmethod
    def allocate(cls, lengths: IntArray) -> Self:
        """Room for rows of the given lengths, yet to be written."""
        starts = np.empty(lengths.size + 1, dtype=np.int64)
        starts[0] = 0
        np.cumsum(lengths, out=starts[1:])
        starts += MARGIN
        return cls(np.empty(int(starts[-1]) + MARGIN, dtype=np.uint8), starts)

    def text(self, shortest: int, longest: int) -> Text:
        """The rows as slices."""
        return Text(self.source, self.starts[:-1], np.diff(self.starts), shortest, longest)

    def arrow(self, kind: pa.DataType, validity: pa.Buffer | None = None, null_count: int = 0) -> pa.Array:
        """The rows as an Arrow array of ``kind`` (string or binary), without copying the bytes."""
        offsets = pa.py_buffer((self.starts - MARGIN).astype(np.int32))
        data = pa.py_buffer(self.source[MARGIN : int(self.starts[-1])])
        return pa.Array.from_buffers(kind, self.starts.size - 1, [validity, offsets, data], null_count=null_count)
