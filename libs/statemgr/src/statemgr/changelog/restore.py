"""Recovery of a replica's tasks together: *state = base @ X ⊕ changelog (X, end]*.

::

    for each task                          for all tasks together
    ─────────────────────────────────      ─────────────────────────────────────────────
    open newest own store ─▶ decide ─┐
    log start and end ───────────────┤
                                     ├──▶ one consumer on all partitions ─▶ batches ─▶ write batches
    UseBase: tail from X + 1 ────────┤         until each position has passed its end
    RestoreFully: all into a new one ┤         log truncated ahead of a reader: that task starts over
    Fresh: nothing to read ──────────┘         no progress before the deadline: RestoreStalledError

Call it after the fence: the end is the high watermark, so every transaction below it must be decided or about to be
(R6). The reader is read_committed and its *position* counts, because the last offsets are transaction markers.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

from statemgr.changelog import bases
from statemgr.changelog.begin import Surroundings, begin_task, take_into_use
from statemgr.changelog.follow import Follower, Reader, ignore, never, start_over
from statemgr.changelog.model import MIN_CHUNK_BYTES, RestoredTask, RestoreProgress, RestoreSettings
from statemgr.changelog.tail import Tail
from statemgr.clock import Clock, SystemClock
from statemgr.kafka.ports import Kafka, TopicInfo
from statemgr.store.base import StoreBackend
from statemgr.types import TaskId

log = logging.getLogger(__name__)


def restore(
    targets: Mapping[TaskId, int],
    backend: StoreBackend,
    kafka: Kafka,
    topic: TopicInfo,
    *,
    name: str,
    keep_former: bool = False,
    in_use: bool = False,
    settings: RestoreSettings | None = None,
    clock: Clock | None = None,
    on_progress: Callable[[RestoreProgress], None] = ignore,
    stop: Callable[[], bool] = never,
    pause: Callable[[float], object] = time.sleep,
) -> dict[TaskId, RestoredTask]:
    """Bring the stores of ``targets`` to the end of their changelog partitions.

    Args:
        targets: task → the owner's epoch; the tasks of one stage.
        backend: where the stores are.
        kafka: the cluster.
        topic: the stage's changelog topic as it exists, checked by
            :func:`statemgr.decisions.check_changelog_topic`.
        name: client id of the reader.
        keep_former: leave the stores of former epochs: somebody else knows who may still need them.
        in_use: the tasks' owners write on; what is restored here is nothing to be read from yet.
        settings: limits.
        clock: time; the machine's by default.
        on_progress: told after every batch.
        stop: asked at least every ``settings.poll_s``.
        pause: waits that many seconds between two questions about the log's bounds.

    Returns:
        Each task with its open store. On any error no store is left open.

    Raises:
        RestoreStalledError: no progress before the deadline, or longer than tombstones are certain to stay.
        StopRequestedError: ``stop`` said so.
        CodecError: a changelog record can't be understood.
        StoreLockedError, IncompatibleStoreError, StoreWriteError: a store can't be used.
        KafkaUnavailableError, TopicMissingError: the changelog can't be read.
    """
    with ExitStack() as opened:
        around = Surroundings(
            topic, settings or RestoreSettings(), clock or SystemClock(), stop, pause, backend, opened
        )
        with Reader(kafka, name) as reader:
            chunk = max(MIN_CHUNK_BYTES, around.settings.chunk_bytes // max(1, len(targets)))
            tails = [begin_task(around, reader.consumer, task, epoch, chunk) for task, epoch in targets.items()]
            Follower(around, reader, start_over(around), partial(Tail.finish, in_use=in_use), on_progress).run(tails)
        take_into_use(around, tails)
        for tail in tails:
            if not keep_former:
                bases.drop_superseded(backend, tail.task, tail.epoch)
            log.info("%s@%s restored: %s, %d records", tail.task, tail.epoch, tail.came_from, tail.records)
        opened.pop_all()  # success: the stores stay open, they are the caller's now
    return {tail.task: tail.restored() for tail in tails}
