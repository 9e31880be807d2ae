"""The byte strings of an Arrow column, without an object each."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any, cast, overload

import numpy as np
import numpy.typing as npt

from towpath_native.extension import NATIVE
from towpath_native.memory import array_of

_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype = ctypes.c_void_p
_pointer_of.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Strings(Sequence["bytes | None"]):
    """Byte strings, each where it lies.

    Attributes:
        address: uint64 array, where each string begins; 0 where there is none.
        size: int64 array, bytes of each; 0 where there is none.
    """

    def __init__(self, address: npt.NDArray[np.uint64], size: npt.NDArray[np.int64], owner: Any) -> None:
        """Look at these addresses; ``owner`` keeps what lies there."""
        self.address = address
        self.size = size
        self._owner = owner

    @classmethod
    def of(cls, items: Sequence[bytes | None]) -> Strings:
        """Strings that hold these."""
        if isinstance(items, Strings):
            return items
        absent = None in items
        present = [item or b"" for item in items] if absent else cast("Sequence[bytes]", items)
        joined = b"".join(present) or b"\0"
        data = np.frombuffer(joined, np.uint8)
        size = np.fromiter(map(len, present), np.int64, len(present))
        address = (np.cumsum(size) - size + data.ctypes.data).astype(np.uint64)
        if absent:
            address[[item is None for item in items]] = 0
        return cls(address, size, data)

    @classmethod
    def of_column(cls, column: Any) -> Strings:
        """Text or bytes of a column that has Arrow's ``__arrow_c_stream__``, as views (``vu``, ``vz``), as Polars does.

        What the column has now stays, whatever becomes of it.

        Raises:
            TypeError: it holds something else.
            MemoryError: there is no memory.
        """
        capsule = column.__arrow_c_stream__()
        address = _pointer_of(capsule, b"arrow_array_stream")
        strings = NATIVE.lib.tn_strings_take(NATIVE.ffi.cast("void *", address))
        if strings == NATIVE.ffi.NULL:
            raise TypeError("the column holds no text or bytes as views, or there is no memory")
        owner = NATIVE.ffi.gc(strings, NATIVE.lib.tn_strings_free)
        length = int(strings.length)
        absent = array_of(owner, strings.absent, length, "|u1")
        found: npt.NDArray[np.uint64] = array_of(owner, strings.address, length, "<u8")
        if absent.any():
            found = np.where(absent, np.uint64(0), found)
        return cls(found, array_of(owner, strings.size, length, "<i8"), owner)

    def at(self, places: npt.NDArray[Any]) -> Strings:
        """The strings at these places."""
        return Strings(self.address[places], self.size[places], self._owner)

    def __len__(self) -> int:
        return len(self.size)

    @overload
    def __getitem__(self, index: int) -> bytes | None: ...

    @overload
    def __getitem__(self, index: slice) -> Strings: ...

    def __getitem__(self, index: int | slice) -> bytes | Strings | None:
        if isinstance(index, slice):
            return self.at(np.arange(*index.indices(len(self))))
        return _bytes(int(self.address[index]), int(self.size[index]))

    def __iter__(self) -> Iterator[bytes | None]:
        return map(_bytes, self.address.tolist(), self.size.tolist())


def _bytes(address: int, size: int) -> bytes | None:
    return ctypes.string_at(address, size) if address else None
