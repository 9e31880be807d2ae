"""Lays out rows of text made of literals, decimal numbers and slices, in one pass over the output.

A row is a sequence of pieces. Neighbouring pieces of constant width are fused into *blocks*, each copied
for all rows by one fancy index (see ``text``). A block may begin with one piece of varying width: it is
copied right-aligned at the widest size, so that excess bytes fall to its left, onto earlier pieces of the same
row, and blocks are written from last to first, which repairs them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from nexmark.arrays import ByteArray, IntArray, VoidArray
from nexmark.text import Packed, Text, windows
from nexmark.words import modulo

Piece: TypeAlias = bytes | IntArray | Text
"""A literal, a column of non-negative integers (written in decimal), or a column of slices."""

_GROUP = 4
"""Digits written at a time, by a table of 10^4 entries (40 kB, half of a usual first-level cache)."""

_GROUP_SIZE = 10**_GROUP
_POWERS = tuple(10**i for i in range(1, 19))
"""Smallest numbers of 2, 3, … 19 digits; 19 is the most a signed 64-bit number has."""


def _digit_table() -> ByteArray:
    numbers = np.arange(_GROUP_SIZE)
    digits = [numbers // 10**i % 10 for i in reversed(range(_GROUP))]
    return (np.column_stack(digits) + ord("0")).astype(np.uint8)


_DIGITS: VoidArray = _digit_table().view(f"V{_GROUP}").ravel()
_DIGIT_WORDS = _digit_table().view(np.uint32).ravel()


def digit_count(number: int) -> int:
    """Number of decimal digits of a non-negative integer."""
    return len(str(number))


@dataclass(slots=True)
class Number:
    """A column of numbers with the range of its decimal widths."""

    values: IntArray
    fewest: int
    most: int

    @classmethod
    def of(cls, values: IntArray) -> "Number":
        """Measures a column of non-negative integers."""
        if values.size == 0:
            return cls(values, 1, 1)
        return cls(values, digit_count(int(values.min())), digit_count(int(values.max())))

    def lengths(self) -> int | IntArray:
        """Decimal width, of each row or of all."""
        if self.fewest == self.most:
            return self.most
        lengths = np.full(self.values.size, self.fewest, dtype=np.int64)
        for power in _POWERS[self.fewest - 1 : self.most - 1]:
            lengths += self.values >= power
        return lengths

    def write(self, matrix: ByteArray, column: int) -> None:
        """Writes ``most`` digits, zero-padded, into each row of ``matrix`` from ``column`` on."""
        rest, right = self.values, column + self.most
        while right - column > _GROUP:
            group = modulo(rest, _GROUP_SIZE)
            rest = (rest.view(np.uint64) // np.uint64(_GROUP_SIZE)).view(np.int64)
            right -= _GROUP
            _column(matrix, right, _GROUP)[:] = _DIGIT_WORDS.take(group).view(f"V{_GROUP}")
        width = right - column
        digits = _DIGIT_WORDS.take(rest).view(np.uint8).reshape(-1, _GROUP)
        _column(matrix, column, width)[:] = _column(digits, _GROUP - width, width)


def _column(matrix: ByteArray, column: int, width: int) -> VoidArray:
    """``width`` bytes of each row from ``column`` on, as one element per row."""
    rows, stride = matrix.shape
    return np.ndarray((rows,), dtype=f"V{width}", buffer=matrix.data, offset=column, strides=(stride,))


@dataclass(slots=True)
class _Block:
    """An optional leading piece and what follows it at constant width."""

    leading: Number | Text | None
    template: bytearray = field(default_factory=bytearray)
    numbers: list[tuple[int, Number]] = field(default_factory=list)

    def append(self, piece: bytes | Number) -> None:
        if isinstance(piece, bytes):
            self.template += piece
        else:
            self.numbers.append((len(self.template), piece))
            self.template += b"0" * piece.most

    @property
    def leading_width(self) -> int:
        match self.leading:
            case None:
                return 0
            case Number(most=most):
                return most
            case Text(longest=longest):
                return longest

    @property
    def shortest(self) -> int:
        match self.leading:
            case None:
                return len(self.template)
            case Number(fewest=fewest):
                return fewest + len(self.template)
            case Text(shortest=shortest):
                return shortest + len(self.template)

    def lengths(self) -> int | IntArray:
        match self.leading:
            case None:
                return len(self.template)
            case Number() as number:
                return number.lengths() + len(self.template)
            case Text(length=length):
                return length + len(self.template)

    def rendered(self, rows: int, *, with_text: bool) -> VoidArray:
        """The block's bytes for every row, right-aligned to its greatest width."""
        lead = self.leading_width if with_text or not isinstance(self.leading, Text) else 0
        width = lead + len(self.template)
        if lead and isinstance(self.leading, Text):
            elements = self.leading.ending(lead, beyond=len(self.template))
        else:
            elements = np.empty(rows, dtype=f"V{width}")
        matrix = elements.view(np.uint8).reshape(rows, width)
        if self.template:
            _column(matrix, lead, len(self.template))[:] = np.void(bytes(self.template))
        if isinstance(self.leading, Number):
            self.leading.write(matrix, 0)
        for column, number in self.numbers:
            number.write(matrix, lead + column)
        return elements

    def write(self, out: ByteArray, ends: IntArray, before: int) -> None:
        """Writes the block so that it ends at ``ends``; ``before`` bytes to its left may be clobbered."""
        text = self.leading
        if isinstance(text, Text) and self.leading_width + len(self.template) > before + self.shortest:
            ends = ends - len(self.template)
            text.write_exactly(out, ends - text.length)
            if self.template:
                windows(out, len(self.template))[ends] = self.rendered(ends.size, with_text=False)
            return
        elements = self.rendered(ends.size, with_text=True)
        width = elements.dtype.itemsize
        windows(out, width)[ends - width] = elements


class Layout:
    """Rows of the same sequence of pieces.

    The first piece is a literal of at least 19 bytes, or no number of the row varies in width: right-aligned
    numbers need that room on their left.
    """

    __slots__ = ("_blocks", "_block_lengths", "lengths", "rows")

    def __init__(self, pieces: Sequence[Piece], rows: int) -> None:
        self.rows = rows
        self._blocks = _blocks(pieces)
        self._block_lengths = [block.lengths() for block in self._blocks]
        self.lengths: IntArray = np.zeros(rows, dtype=np.int64)
        for lengths in self._block_lengths:
            self.lengths += lengths

    @property
    def shortest(self) -> int:
        """No row is shorter."""
        return sum(block.shortest for block in self._blocks)

    @property
    def longest(self) -> int:
        """No row is longer."""
        return sum(block.leading_width + len(block.template) for block in self._blocks)

    def write(self, out: ByteArray, ends: IntArray) -> None:
        """Writes each row so that it ends before position ``ends`` of ``out``, touching no other byte."""
        if self.rows == 0:
            return
        before = self.shortest
        for block, lengths in zip(reversed(self._blocks), reversed(self._block_lengths), strict=True):
            before -= block.shortest
            block.write(out, ends, before)
            ends = ends - lengths

    def packed(self) -> Packed:
        """The rows, one after the other, in a buffer of their own."""
        packed = Packed.allocate(self.lengths)
        self.write(packed.source, packed.starts[1:])
        return packed

    def text(self) -> Text:
        """The rows as slices of a buffer of their own."""
        return self.packed().text(self.shortest, self.longest)


def _blocks(pieces: Sequence[Piece]) -> list[_Block]:
    blocks = [_Block(None)]
    for piece in pieces:
        match piece:
            case bytes():
                blocks[-1].append(piece)
            case Text():
                blocks.append(_Block(piece))
            case _:
                number = Number.of(piece)
                if number.fewest == number.most:
                    blocks[-1].append(number)
                else:
                    blocks.append(_Block(number))
    return [block for block in blocks if block.leading_width + len(block.template)]
