"""Queues many records of one partition at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from towpath_native.extension import NATIVE, handle_of
from towpath_native.memory import pointer_to
from towpath_native.strings import Strings


class Publisher:
    """Takes the place of ``Producer.produce_batch`` of one producer; nobody is told of single deliveries.

    So it is for producers in transactions, whose commit tells of a record that could not be delivered.
    """

    def __init__(self, producer: Any) -> None:
        """Begin with an open producer of confluent-kafka."""
        self._producer = producer
        self._handle = handle_of(producer)

    def publish(
        self, topic: str, partition: int, keys: Strings | None, values: Strings
    ) -> npt.NDArray[np.int32] | None:
        """Queue records, which are copied.

        Args:
            topic: of all of them.
            partition: of all of them; -1: by key.
            keys: as many as values, or None for no keys.
            values: the records.

        Returns:
            None if all are queued; otherwise for each record 0, or librdkafka's error.

        Raises:
            ValueError: keys and values are not as many.
            MemoryError: no record is queued.
        """
        count = len(values)
        if keys is not None and len(keys) != count:
            raise ValueError(f"{len(keys)} keys for {count} values")
        errors = np.empty(count, np.int32)
        queued = NATIVE.lib.tn_produce(
            self._handle, topic.encode(), partition, count, *_of(keys), *_of(values), pointer_to(errors, "int32_t *")
        )
        if queued < 0:
            raise MemoryError("no memory to queue records")
        return None if queued == count else errors


def _of(strings: Strings | None) -> tuple[Any, Any]:
    if strings is None:
        return NATIVE.ffi.NULL, NATIVE.ffi.NULL
    return pointer_to(strings.address, "uint64_t *"), pointer_to(strings.size, "int64_t *")
