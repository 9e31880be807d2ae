"""Fields of JSON objects → columns, for records that are plain."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from towpath_native.cells import Cells
from towpath_native.extension import NATIVE
from towpath_native.memory import pointer_to
from towpath_native.text import TextColumn

MOST_FIELDS = 64
"""Most fields of one decoder."""


class Kind(IntEnum):
    """What a field's values are."""

    INTEGER = 1
    FLOAT = 2
    BOOLEAN = 3
    TEXT = 4


class Field(NamedTuple):
    """A field that is needed.

    Attributes:
        kind: of its values; null is always allowed.
        least: smallest integer.
        most: largest integer.
    """

    kind: Kind
    least: int = -(2**63)
    most: int = 2**63 - 1


class Column(NamedTuple):
    """One field of all records.

    Attributes:
        values: int64, float64 or uint8 (0 or 1) array with one entry a record, or a column of text; where there is no
            value, any that the field can have, or 0.
        valid: uint8 array: 0 where there is no value.
    """

    values: npt.NDArray[Any] | TextColumn
    valid: npt.NDArray[np.uint8]


_DTYPES: Mapping[Kind, Any] = {Kind.INTEGER: np.int64, Kind.FLOAT: np.float64, Kind.BOOLEAN: np.uint8}


class JsonColumns:
    """Decodes the needed fields of records that are flat objects in plain JSON.

    A record that is anything else (escapes, text beyond ASCII, 19 digits, a field twice, a wrong type, no JSON at all)
    is *odd*: its row is null in every column, and somebody else has to decode it. So this never judges a record; what
    it does decode is what a strict decoder gives. Not for several threads at once.
    """

    def __init__(self, fields: Mapping[str, Field]) -> None:
        """Fix the needed fields, at most :data:`MOST_FIELDS`.

        Raises:
            ValueError: more fields than that.
        """
        names = [name.encode() for name in fields]
        kept = [NATIVE.ffi.new("char[]", name) for name in names]
        described = NATIVE.ffi.new("tn_field[]", len(names))
        for index, (name, field) in enumerate(zip(names, fields.values(), strict=True)):
            described[index].name = kept[index]
            described[index].size = len(name)
            described[index].kind = int(field.kind)
            described[index].least = field.least
            described[index].most = field.most
        decoder = NATIVE.lib.tn_decoder_new(len(names), described)
        if decoder == NATIVE.ffi.NULL:
            raise ValueError(f"{len(names)} fields are more than {MOST_FIELDS}")
        self._decoder = NATIVE.ffi.gc(decoder, NATIVE.lib.tn_decoder_free)
        self._kinds = [field.kind for field in fields.values()]

    def decode(self, records: Cells) -> tuple[list[Column], npt.NDArray[np.intp]]:
        """The columns in the order of the fields, and the places of the odd records."""
        count = len(records)
        columns = [self._column(kind, count, records) for kind in self._kinds]
        for index, (values, valid) in enumerate(columns):
            data, begin = _targets(values)
            NATIVE.lib.tn_decoder_column(self._decoder, index, data, begin, pointer_to(valid, "uint8_t *"))
        odd = np.empty(count, np.uint8)
        left = NATIVE.lib.tn_decode(
            self._decoder,
            count,
            pointer_to(records.data, "uint8_t *"),
            pointer_to(records.begin, "int64_t *"),
            pointer_to(records.end, "int64_t *"),
            pointer_to(records.absent, "uint8_t *"),
            pointer_to(odd, "uint8_t *"),
        )
        for values, valid in columns:
            if isinstance(values, TextColumn):
                values.finish(valid)
        return columns, np.flatnonzero(odd) if left else np.empty(0, np.intp)

    def _column(self, kind: Kind, count: int, records: Cells) -> Column:
        values = TextColumn(count, int(records.sizes.sum())) if kind is Kind.TEXT else np.zeros(count, _DTYPES[kind])
        return Column(values, np.empty(count, np.uint8))


def _targets(values: npt.NDArray[Any] | TextColumn) -> tuple[Any, Any]:
    """Where the extension writes values, and where each text begins."""
    if isinstance(values, TextColumn):
        return values.text.data, values.text.begin
    return pointer_to(values, "void *"), NATIVE.ffi.NULL
