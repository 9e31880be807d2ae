"""A column of text that goes over by Arrow's PyCapsule interface without a copy."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy.typing as npt

from towpath_native.extension import NATIVE

_capsule = ctypes.pythonapi.PyCapsule_New
_capsule.restype = ctypes.py_object
_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class TextColumn:
    """Text that the extension writes, and Arrow's consumers take.

    Attributes:
        text: the extension's column.
    """

    def __init__(self, rows: int, size: int) -> None:
        """Room for ``rows`` rows, of ``size`` bytes altogether at most.

        Raises:
            MemoryError: there is none.
        """
        text = NATIVE.lib.tn_text_new(rows, size)
        if text == NATIVE.ffi.NULL:
            raise MemoryError("no memory for a column of text")
        self.text = NATIVE.ffi.gc(text, NATIVE.lib.tn_text_free)
        self._rows = rows
        self._exported: Any = None
        self._ready = False

    def finish(self, valid: npt.NDArray[Any]) -> TextColumn:
        """To be called once, when the text is written; ``valid``: uint8 array, 0 where a row is null."""
        exported = NATIVE.lib.tn_text_export(
            self.text, self._rows, NATIVE.ffi.cast("uint8_t *", valid.ctypes.data if self._rows else 0)
        )
        if exported == NATIVE.ffi.NULL:
            raise MemoryError("no memory for a column of text")
        self._exported = NATIVE.ffi.gc(exported, NATIVE.lib.tn_export_free)
        self._ready = True
        return self

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        """Schema and array, for one consumer, and while this object lives.

        Raises:
            ValueError: the column is not finished, or was handed over before.
        """
        if not self._ready:
            raise ValueError("a column of text is handed over once, after it is finished")
        self._ready = False
        address = [
            int(NATIVE.ffi.cast("uintptr_t", part(self._exported)))
            for part in (NATIVE.lib.tn_export_schema, NATIVE.lib.tn_export_array)
        ]
        return _capsule(address[0], b"arrow_schema", None), _capsule(address[1], b"arrow_array", None)
