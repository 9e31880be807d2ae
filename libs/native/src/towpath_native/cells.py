"""A column of byte strings in one buffer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt


class Cells(Sequence["bytes | None"]):
    """Byte strings that lie in one buffer; some may be absent.

    Attributes:
        data: uint8 array, the bytes; not empty.
        begin: int64 array, where each cell begins.
        end: int64 array, where it ends; cell i is ``data[begin[i]:end[i]]``.
        absent: uint8 array, not 0 where a cell is None.
    """

    __slots__ = ("absent", "begin", "data", "end")

    def __init__(
        self, data: npt.NDArray[Any], begin: npt.NDArray[Any], end: npt.NDArray[Any], absent: npt.NDArray[Any]
    ) -> None:
        self.data = data if data.size else _NOTHING
        self.begin = begin
        self.end = end
        self.absent = absent

    @classmethod
    def of(cls, items: Sequence[bytes | None]) -> Cells:
        """Cells that hold these byte strings."""
        sizes = np.fromiter((0 if item is None else len(item) for item in items), np.int64, len(items))
        ends = np.cumsum(sizes)
        data = np.frombuffer(b"".join(item or b"" for item in items), np.uint8)
        return cls(data, ends - sizes, ends, np.fromiter((item is None for item in items), np.uint8, len(items)))

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Bytes of each; 0 for None."""
        sizes: npt.NDArray[np.int64] = self.end - self.begin
        return sizes

    def at(self, places: npt.NDArray[Any] | slice) -> Cells:
        """The cells at these places, over the same buffer."""
        return Cells(
            self.data,
            np.ascontiguousarray(self.begin[places]),
            np.ascontiguousarray(self.end[places]),
            np.ascontiguousarray(self.absent[places]),
        )

    def __len__(self) -> int:
        return len(self.absent)

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...

    @overload
    def __getitem__(self, index: slice) -> Cells: ...

    def __getitem__(self, index: int | slice) -> bytes | Cells | None:
        if isinstance(index, slice):
            return self.at(index)
        place = range(len(self))[index]
        return None if self.absent[place] else self.data[self.begin[place] : self.end[place]].tobytes()

    def __iter__(self) -> Iterator[bytes | None]:
        data = self.data.data
        for absent, begin, end in zip(self.absent.tolist(), self.begin.tolist(), self.end.tolist(), strict=True):
            yield None if absent else bytes(data[begin:end])


_NOTHING = np.zeros(1, np.uint8)
