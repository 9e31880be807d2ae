"""Memory of the extension as NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from towpath_native.extension import NATIVE


class _Memory:
    """What NumPy takes for an array; the array keeps it, and so the owner."""

    __slots__ = ("__array_interface__", "owner")

    def __init__(self, owner: Any, pointer: Any, length: int, kind: str) -> None:
        self.owner = owner
        address = int(NATIVE.ffi.cast("uintptr_t", pointer))
        self.__array_interface__ = {"shape": (length,), "typestr": kind, "data": (address, True), "version": 3}


def array_of(owner: Any, pointer: Any, length: int, kind: str) -> npt.NDArray[Any]:
    """Memory as a read-only array.

    Args:
        owner: stays alive as long as the array.
        pointer: the memory.
        length: number of items.
        kind: of the items, as NumPy's array interface names it.
    """
    if not length:
        return np.empty(0, np.dtype(kind))
    return np.asarray(_Memory(owner, pointer, length, kind))


def pointer_to(array: npt.NDArray[Any], kind: str) -> Any:
    """Where an array lies, as a pointer of this type for the extension; the array has to be contiguous."""
    return NATIVE.ffi.cast(kind, array.ctypes.data)
