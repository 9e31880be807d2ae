"""Queues many records of one partition at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from towpath_native.cells import Cells
from towpath_native.extension import NATIVE, handle_of

_NO_VALUE, _NO_KEY = 1, 2


class Publisher:
    """Takes the place of ``Producer.produce_batch`` of one producer; nobody is told of single deliveries."""

    def __init__(self, producer: Any) -> None:
        """Begin with an open producer of confluent-kafka."""
        self._producer = producer
        self._handle = handle_of(producer)

    def publish(self, topic: str, partition: int, keys: Cells | None, values: Cells) -> npt.NDArray[np.int32] | None:
        """Queue records.

        Args:
            topic: of all of them.
            partition: of all of them; -1: by key.
            keys: as many as values, or None for no keys.
            values: the records.

        Returns:
            None if all are queued; otherwise for each record 0, or librdkafka's error.

        Raises:
            MemoryError: no record is queued.
        """
        count = len(values)
        errors = np.empty(count, np.int32)
        absent = np.where(values.absent, np.uint8(_NO_VALUE), np.uint8(0))
        absent |= _NO_KEY if keys is None else np.where(keys.absent, np.uint8(_NO_KEY), np.uint8(0))
        queued = NATIVE.lib.tn_produce(
            self._handle,
            topic.encode(),
            partition,
            count,
            *_of(keys if keys is not None else values),
            *_of(values),
            _pointer(absent, "uint8_t *"),
            _pointer(errors, "int32_t *"),
        )
        if queued < 0:
            raise MemoryError("no memory to queue records")
        return None if queued == count else errors


def _of(cells: Cells) -> tuple[Any, Any, Any]:
    return _pointer(cells.data, "uint8_t *"), _pointer(cells.begin, "int64_t *"), _pointer(cells.end, "int64_t *")


def _pointer(array: npt.NDArray[Any], kind: str) -> Any:
    return NATIVE.ffi.cast(kind, array.ctypes.data)
