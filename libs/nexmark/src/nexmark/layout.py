"""Lays out rows of text made of literals, decimal numbers and slices, in one pass over the output.

A row is a sequence of pieces. Neighbouring pieces of constant width are fused into *blocks*, each copied
for all rows by one fancy index (see ``text``). A block may begin with one piece of varying width: it is
copied right-aligned at the widest size, so that excess bytes fall to its left, onto earlier pieces of the same
row, and blocks are written from last to first, which repairs them. Where the row has too little room on the
left, the piece is copied exactly instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Self, TypeAlias

import numpy as np

from nexmark.arrays import ByteArray, IntArray, VoidArray
from nexmark.text import MARGIN, Packed, Text, new_source, windows

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


_DIGITS = _digit_table().view(np.uint32).ravel()


@dataclass(frozen=True, slots=True)
class Number:
    """A column of numbers in decimal.

    Attributes:
        values: Non-negative integers.
        length: Digits of each, or of all if they agree.
        shortest: Fewest digits.
        longest: Most digits.
    """

    values: IntArray
    length: int | IntArray
    shortest: int
    longest: int

    @classmethod
    def of(cls, values: IntArray) -> Self:
        """Measures a column of non-negative integers."""
        if values.size == 0:
            return cls(values, 1, 1, 1)
        fewest, most = len(str(values.min())), len(str(values.max()))
        if fewest == most:
            return cls(values, most, most, most)
        length = np.full(values.size, fewest, dtype=np.int64)
        for power in _POWERS[fewest - 1 : most - 1]:
            length += values >= power
        return cls(values, length, fewest, most)

    def write(self, matrix: ByteArray, column: int) -> None:
        """Writes ``longest`` digits, zero-padded, into each row of ``matrix`` from ``column`` on."""
        rest, right = self.values, column + self.longest
        while right - column > _GROUP:
            quotient = (rest.view(np.uint64) // np.uint64(_GROUP_SIZE)).view(np.int64)
            right -= _GROUP
            digits = _DIGITS.take(rest - quotient * _GROUP_SIZE)
            _column(matrix, right, _GROUP)[:] = digits.view(f"V{_GROUP}")
            rest = quotient
        width = right - column
        digits = _DIGITS.take(rest).view(np.uint8).reshape(-1, _GROUP)
        _column(matrix, column, width)[:] = _column(digits, _GROUP - width, width)

    def text(self) -> Text:
        """The numbers as slices of a buffer of their own."""
        rows, width = self.values.size, self.longest
        source, inside = new_source(rows * width)
        self.write(inside.reshape(rows, width), 0)
        start = np.arange(MARGIN + width, MARGIN + (rows + 1) * width, width) - self.length
        return Text(source, start, start * 0 + self.length, self.shortest, width)


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
            self.template += b"0" * piece.longest

    @property
    def shortest(self) -> int:
        return len(self.template) + (self.leading.shortest if self.leading else 0)

    @property
    def longest(self) -> int:
        return len(self.template) + (self.leading.longest if self.leading else 0)

    def lengths(self) -> int | IntArray:
        return len(self.template) + (self.leading.length if self.leading else 0)

    def write(self, out: ByteArray, ends: IntArray, before: int) -> None:
        """Writes the block so that it ends at ``ends``; ``before`` bytes to its left may be clobbered."""
        if self.leading and self.longest > before + self.shortest:
            tail = _Block(None, self.template, self.numbers)
            tail.write(out, ends, before)
            text = self.leading if isinstance(self.leading, Text) else self.leading.text()
            text.write_exactly(out, ends - len(self.template) - text.length)
        elif self.longest:
            windows(out, self.longest)[ends - self.longest] = self._rendered(ends.size)

    def _rendered(self, rows: int) -> VoidArray:
        """The block's bytes for every row, right-aligned to its greatest width."""
        width, size = self.longest, len(self.template)
        if isinstance(self.leading, Text):
            elements = self.leading.ending(width - size, beyond=size)
        else:
            elements = np.empty(rows, dtype=f"V{width}")
        matrix = elements.view(np.uint8).reshape(rows, width)
        if size:
            _column(matrix, width - size, size)[:] = np.void(bytes(self.template))
        if isinstance(self.leading, Number):
            self.leading.write(matrix, 0)
        for column, number in self.numbers:
            number.write(matrix, width - size + column)
        return elements


class Layout:
    """Rows of the same sequence of pieces."""

    __slots__ = ("_blocks", "lengths", "rows")

    def __init__(self, pieces: Sequence[Piece], rows: int) -> None:
        self.rows = rows
        self._blocks = _blocks(pieces)
        self.lengths: IntArray = np.zeros(rows, dtype=np.int64)
        for block in self._blocks:
            self.lengths += block.lengths()

    @property
    def shortest(self) -> int:
        """No row is shorter."""
        return sum(block.shortest for block in self._blocks)

    @property
    def longest(self) -> int:
        """No row is longer."""
        return sum(block.longest for block in self._blocks)

    def write(self, out: ByteArray, ends: IntArray) -> None:
        """Writes each row so that it ends before position ``ends`` of ``out``, touching no other byte."""
        if self.rows == 0:
            return
        before = self.shortest
        for block in reversed(self._blocks):
            before -= block.shortest
            block.write(out, ends, before)
            ends = ends - block.lengths()

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
        if isinstance(piece, Text):
            blocks.append(_Block(piece))
            continue
        constant = piece if isinstance(piece, bytes) else Number.of(piece)
        if isinstance(constant, bytes) or constant.shortest == constant.longest:
            blocks[-1].append(constant)
        else:
            blocks.append(_Block(constant))
    return blocks
