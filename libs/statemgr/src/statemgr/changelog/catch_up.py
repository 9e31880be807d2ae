"""The tail of a store whose base is not all here: *state = layers @ X + changelog (X, end]*.

Beside the full restore, never instead of it (R10): the store holds the newest layer only, so the tail is applied to it
in order and unconditionally before the first row, a delete leaves a tombstone, and nothing can start over from the
log's beginning.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from statemgr.changelog.begin import Reading, decide_when_known
from statemgr.changelog.follow import Follower, Reader, ignore, never
from statemgr.changelog.model import RestoredTask, RestoreProgress, RestoreSettings, Source
from statemgr.changelog.tail import Tail
from statemgr.clock import Clock, SystemClock
from statemgr.decisions import UseBase, explain
from statemgr.errors import InputLostError, StaleBaseError
from statemgr.kafka.ports import Bounds, Kafka, TopicInfo
from statemgr.migration.layered import LayeredStore
from statemgr.types import TaskId, TopicPartition

log = logging.getLogger(__name__)

TAIL_BATCH_BYTES = 256 * 1024
"""Size of a write batch: the store is in nobody's way yet, but a tail is short."""


def catch_up(
    task: TaskId,
    epoch: int,
    store: LayeredStore,
    kafka: Kafka,
    topic: TopicInfo,
    *,
    name: str,
    settings: RestoreSettings | None = None,
    clock: Clock | None = None,
    on_progress: Callable[[RestoreProgress], None] = ignore,
    stop: Callable[[], bool] = never,
    pause: Callable[[float], object] = time.sleep,
) -> RestoredTask:
    """Apply the changelog from the store's X to its end, deletes as tombstones.

    Call it after every earlier owner has ended: what the log holds then is all that they wrote.

    Args:
        task: whose store it is.
        epoch: the owner's epoch.
        store: the store over its layers, whose meta record says up to where they are complete; it stays open, and the
            caller's, whatever happens.
        kafka: the cluster.
        topic: the stage's changelog topic.
        name: client id of the reader.
        settings: limits.
        clock: time; the machine's by default.
        on_progress: told after every batch.
        stop: asked at least every ``settings.poll_s``.
        pause: waits that many seconds between two questions about the log's bounds.

    Raises:
        StaleBaseError: the log lacks something behind X, or X is too old: begin with another base.
        RestoreStalledError, StopRequestedError, CodecError, StoreWriteError, KafkaUnavailableError: see
            :func:`statemgr.changelog.restore`.
    """
    with Reader(kafka, name) as reader:
        around = Reading(topic, settings or RestoreSettings(), clock or SystemClock(), stop, pause)
        source = TopicPartition(topic.name, task.partition)
        meta = store.meta()
        decision, bounds = decide_when_known(around, reader.consumer, source, meta, epoch)
        if not isinstance(decision, UseBase) or meta is None:
            raise StaleBaseError(f"the layers of {task}@{epoch} are no base: {explain(decision)}")
        tail = Tail(task, epoch, source, topic.topic_id, TAIL_BATCH_BYTES, around.clock.wall_ms)
        tail.begin(store, Source.TAIL, decision.from_offset, bounds.end, meta)
        Follower(around, reader, _overtaken, Tail.finish, on_progress).run([tail])
        log.info("%s@%s caught up over its layers: %d records", task, epoch, tail.records)
        return tail.restored()


def _overtaken(tail: Tail, bounds: Bounds, cause: InputLostError) -> None:
    raise StaleBaseError(
        f"the layers of {tail.task}@{tail.epoch} are no base any more: {tail.partition} now holds {bounds.start} … "
        f"{bounds.end}, and the next offset wanted is {tail.next}; nothing may be deleted from a changelog: set "
        "cleanup.policy=compact"
    ) from cause
