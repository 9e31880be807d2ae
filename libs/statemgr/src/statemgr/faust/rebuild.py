"""A changelog partition read again into a store beside the table's own: what remains when a copy is lost (R10).

It is read up to its end: what the worker has written itself since the take-over counts before it anyway, because it
is in the table's own store.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError

from statemgr.clock import Clock
from statemgr.errors import RestoreStalledError, StateError, StopRequestedError
from statemgr.faust.connection import Connection
from statemgr.faust.images import Image, Record
from statemgr.layout import scratch_task
from statemgr.migration.scratch import drop_scratch
from statemgr.migration.sources import ScratchSource
from statemgr.store.base import EMPTY_OFFSET, Store, StoreMeta
from statemgr.store.rocks_backend import RocksBackend
from statemgr.types import TaskId

log = logging.getLogger(__name__)

BATCH = 5_000
"""Records that are written at once."""

STALL_S = 30.0
"""Without any record for so long the reading is given up, and tried again."""

_POLL_MS = 500


def rebuild(
    connection: Connection,
    task: TaskId,
    epoch: int,
    backend: RocksBackend,
    image: Image,
    clock: Clock,
    stop: Callable[[], bool],
) -> ScratchSource:
    """Read a partition from its beginning; to be called in a thread.

    Raises:
        RestoreStalledError: Kafka gives nothing.
        StopRequestedError: asked to stop.
    """
    drop_scratch(backend, task)
    place = scratch_task(task)
    store: Store = backend.open(place, epoch, filling=not image.adds)
    try:
        offset = asyncio.run(_Reading(connection, task, epoch, store, image, clock, stop).run())
        if not image.adds:
            (store,) = backend.filled([(place, epoch)])
    except (KafkaError, OSError) as error:
        store.close()
        if isinstance(error, StateError):
            raise
        raise RestoreStalledError(f"{task} can't be read: {type(error).__name__}: {error}") from error
    except BaseException:
        store.close()
        raise
    log.warning("%s was read again from its beginning to offset %d, because a copy of it was lost", task, offset)
    return ScratchSource(store, epoch, offset, lambda: drop_scratch(backend, task))


class _Reading:
    def __init__(
        self,
        connection: Connection,
        task: TaskId,
        epoch: int,
        store: Store,
        image: Image,
        clock: Clock,
        stop: Callable[[], bool],
    ) -> None:
        self._connection = connection
        self._task = task
        self._epoch = epoch
        self._store = store
        self._image = image
        self._clock = clock
        self._stop = stop

    async def run(self) -> int:
        """The offset up to which the store is complete then."""
        at = TopicPartition(*self._task)
        consumer = self._connection.consumer()
        await consumer.start()
        try:
            consumer.assign([at])
            await consumer.seek_to_beginning(at)
            end: int = (await consumer.end_offsets([at]))[at]
            position, moved_s = await consumer.position(at), self._clock.monotonic_s()
            while position < end:
                answer = await consumer.getmany(at, timeout_ms=_POLL_MS, max_records=BATCH)
                self._write([Record(r.key, r.value, r.offset, r.timestamp) for r in answer.get(at, [])])
                now_s, before = self._clock.monotonic_s(), position
                position = await consumer.position(at)
                moved_s = now_s if position > before else moved_s
                self._check(position, now_s - moved_s)
        finally:
            await consumer.stop()
        return end - 1

    def _write(self, records: list[Record]) -> None:
        if records:
            meta = StoreMeta("", records[-1].offset, self._clock.wall_ms(), self._epoch, None)
            self._store.write(self._image.entries(records, self._store.get_many), meta)

    def _check(self, position: int, still_s: float) -> None:
        if self._stop():
            raise StopRequestedError(f"asked to stop while {self._task} was read")
        if still_s >= STALL_S:
            raise RestoreStalledError(
                f"{self._task} has stood still at offset {max(position, EMPTY_OFFSET)} for {still_s:.0f} s"
            )
