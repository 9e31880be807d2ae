"""Reads what a consumer has fetched, as columns."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from towpath_native.cells import Cells
from towpath_native.extension import NATIVE, handle_of
from towpath_native.memory import array_of
from towpath_native.records import Records

_NO_VALUE, _NO_KEY = 1, 2
_MOST_WAIT_MS = 2**31 - 1


class Fault(NamedTuple):
    """An error among the records.

    Attributes:
        code: librdkafka's.
        text: what it says.
        topic: of the partition that it is about; None: it is about none.
        partition: its number, -1 for none.
        offset: where, -1 or less for nowhere.
    """

    code: int
    text: str
    topic: str | None
    partition: int
    offset: int


class Fetcher:
    """Takes the place of ``Consumer.consume`` of one consumer, with partitions assigned by hand.

    Each partition has to be routed before it is assigned: :meth:`route`. Positions are kept as by ``consume``. Errors
    come as :class:`Fault` instead of by ``error_cb``; nobody else is to poll the consumer meanwhile.
    """

    def __init__(self, consumer: Any) -> None:
        """Begin with an open consumer of confluent-kafka that has no partitions yet."""
        self._consumer = consumer
        queues = NATIVE.lib.tn_queues_new(handle_of(consumer))
        if queues == NATIVE.ffi.NULL:
            raise MemoryError("no memory for the queues of a consumer")
        self._queues: Any = queues

    def route(self, topic: str, partition: int) -> None:
        """To be called before a partition is assigned, each time, so that its records come here.

        Raises:
            ValueError: the fetcher is closed, or no topic can be called so.
        """
        if not NATIVE.lib.tn_route(self._open(), topic.encode(), partition):
            raise ValueError(f"no queue for partition {partition} of topic {topic!r}")

    def fetch(self, most: int, timeout_s: float) -> tuple[Records, list[Fault]]:
        """Whatever is there; waits up to ``timeout_s`` for the first record.

        Args:
            most: at most so many records.
            timeout_s: seconds.

        Returns:
            The records, and the errors that came with them.

        Raises:
            ValueError: it is closed.
            MemoryError: no memory for the records; the positions are behind them, so that the consumer is of no use.
        """
        queues = self._open()
        wait_ms = min(int(timeout_s * 1000 + 0.999), _MOST_WAIT_MS)
        batch = NATIVE.lib.tn_fetch(queues, most, wait_ms)
        if batch == NATIVE.ffi.NULL:
            raise MemoryError("no memory for the records that Kafka sent")
        owned = NATIVE.ffi.gc(batch, NATIVE.lib.tn_batch_free)
        return _records(owned), [_fault(owned.faults.items[at]) for at in range(owned.faults.count)]

    def close(self) -> None:
        """To be called before the consumer is closed."""
        queues, self._queues = self._queues, None
        if queues is not None:
            NATIVE.lib.tn_queues_free(queues)

    def _open(self) -> Any:
        if self._queues is None:
            raise ValueError("the fetcher is closed")
        return self._queues


def _records(batch: Any) -> Records:
    count = int(batch.records)

    def column(pointer: Any, kind: str) -> npt.NDArray[Any]:
        return array_of(batch, pointer, count, kind)

    def cells(found: Any, absent: npt.NDArray[Any]) -> Cells:
        bounds = array_of(batch, found.begin, count + 1, "<i8")
        return Cells(array_of(batch, found.data, int(bounds[-1]), "|u1"), bounds[:-1], bounds[1:], absent)

    absent = column(batch.absent, "|u1")
    return Records(
        [_text(batch.topic_names[at]) or "" for at in range(batch.topic_count)],
        column(batch.topics, "<i4"),
        column(batch.partitions, "<i4"),
        column(batch.offsets, "<i8"),
        column(batch.timestamps, "<i8"),
        column(batch.timestamp_kinds, "|i1"),
        cells(batch.keys, absent & _NO_KEY),
        cells(batch.values, absent & _NO_VALUE),
        cells(batch.headers, np.zeros(count, np.uint8)),
    )


def _fault(found: Any) -> Fault:
    return Fault(found.code, _text(found.text) or "", _text(found.topic), int(found.partition), int(found.offset))


def _text(pointer: Any) -> str | None:
    return None if pointer == NATIVE.ffi.NULL else NATIVE.ffi.string(pointer).decode(errors="replace")
