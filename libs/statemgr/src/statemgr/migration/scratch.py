"""The scratch base: a task's changelog [0, cut] in a store of its own, last wins (R10).

It is what remains when a layer is lost (I5). The owner works on meanwhile; what it has written since, and what has
arrived, stays in its own store and counts before anything that the scratch base says.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress

from statemgr.changelog.begin import Surroundings, is_long, take_into_use, warn_of_lost_start
from statemgr.changelog.follow import Follower, Reader, ignore, never, start_over
from statemgr.changelog.model import RestoreProgress, RestoreSettings, Source
from statemgr.changelog.tail import Tail
from statemgr.clock import Clock, SystemClock
from statemgr.errors import StoreLockedError
from statemgr.kafka.ports import Kafka, TopicInfo
from statemgr.layout import scratch_task
from statemgr.migration.sources import ScratchSource
from statemgr.store.base import StoreBackend
from statemgr.types import TaskId, TopicPartition

log = logging.getLogger(__name__)


def build_scratch(
    task: TaskId,
    epoch: int,
    cut: int,
    backend: StoreBackend,
    kafka: Kafka,
    topic: TopicInfo,
    *,
    name: str,
    settings: RestoreSettings | None = None,
    clock: Clock | None = None,
    on_progress: Callable[[RestoreProgress], None] = ignore,
    stop: Callable[[], bool] = never,
    pause: Callable[[float], object] = time.sleep,
) -> ScratchSource:
    """Rebuild a task's state as of its cut; takes as long as a full restore, so it belongs beside the owner's loop.

    Args:
        task: whose state it is.
        epoch: the owner's epoch.
        cut: changelog offset at which the owner took over; -1: nothing was there.
        backend: keeps the store, under :func:`statemgr.layout.scratch_task`.
        kafka: the cluster.
        topic: the stage's changelog topic.
        name: client id of the reader.
        settings: limits.
        clock: time; the machine's by default.
        on_progress: told after every batch.
        stop: asked at least every ``settings.poll_s``.
        pause: waits between two questions about the log's bounds.

    Raises:
        RetryableKafkaError, KafkaUnavailableError: no broker tells the log's bounds; try again.
        RestoreStalledError, StopRequestedError, CodecError, StoreWriteError: see :func:`statemgr.changelog.restore`.
    """
    drop_scratch(backend, task)
    with ExitStack() as opened:
        around = Surroundings(
            topic, settings or RestoreSettings(), clock or SystemClock(), stop, pause, backend, opened
        )
        place, source = scratch_task(task), TopicPartition(topic.name, task.partition)
        with Reader(kafka, name) as reader:
            bounds = reader.consumer.bounds(source, around.settings.bounds_timeout_s)
            filling = is_long(bounds.start, cut + 1)
            store = backend.open(place, epoch, filling=filling)
            opened.callback(store.close)
            warn_of_lost_start(source, bounds)
            tail = Tail(place, epoch, source, topic.topic_id, around.settings.chunk_bytes, around.clock.wall_ms)
            tail.begin(store, Source.FULL, bounds.start, cut + 1, None, filling=filling)
            overtaken = start_over(around, lambda _: cut + 1)
            Follower(around, reader, overtaken, Tail.finish, on_progress).run([tail])
        take_into_use(around, [tail])
        opened.pop_all()
        log.info("scratch base of %s@%s is ready: %d records up to offset %d", task, epoch, tail.records, cut)
        return ScratchSource(tail.store, epoch, cut, lambda: drop_scratch(backend, task))


def drop_scratch(backend: StoreBackend, task: TaskId) -> None:
    """Delete what was built for earlier epochs, and for this one before a crash; what is in use stays."""
    place = scratch_task(task)
    for epoch in backend.existing(place):
        with suppress(StoreLockedError):
            backend.destroy(place, epoch)
