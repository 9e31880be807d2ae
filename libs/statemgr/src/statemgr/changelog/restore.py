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

from statemgr.changelog import bases
from statemgr.changelog.begin import Surroundings, ask_bounds, begin_task, warn_of_lost_start
from statemgr.changelog.model import (
    MIN_CHUNK_BYTES,
    RestoredTask,
    RestoreProgress,
    RestoreSettings,
    Source,
)
from statemgr.changelog.patience import Patience, Verdict
from statemgr.changelog.tail import Tail
from statemgr.clock import Clock, SystemClock
from statemgr.decisions import base_age_limit_ms, delete_retention_ms
from statemgr.errors import InputLostError, RestoreStalledError
from statemgr.kafka.ports import Bounds, Consumer, Kafka, TopicInfo
from statemgr.store.base import StoreBackend
from statemgr.types import TaskId

log = logging.getLogger(__name__)


def _ignore(progress: RestoreProgress) -> None:
    pass


def _never() -> bool:
    return False


def restore(
    targets: Mapping[TaskId, int],
    backend: StoreBackend,
    kafka: Kafka,
    topic: TopicInfo,
    *,
    name: str,
    settings: RestoreSettings | None = None,
    clock: Clock | None = None,
    on_progress: Callable[[RestoreProgress], None] = _ignore,
    stop: Callable[[], bool] = _never,
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
            backend, topic, settings or RestoreSettings(), clock or SystemClock(), stop, pause, opened
        )
        with _Reader(kafka, name) as reader:
            restored = _Restore(around, reader, on_progress).run(targets)
        opened.pop_all()  # success: the stores stay open, they are the caller's now
        return restored


class _Reader:
    """The consumer, which can be replaced by a new one: that has no position, fetch or error left from before."""

    def __init__(self, kafka: Kafka, name: str) -> None:
        self._kafka = kafka
        self._name = name
        self.consumer: Consumer = kafka.consumer(read_committed=True, name=name)

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.consumer.close()

    def read_from(self, tails: Mapping[int, Tail], *, anew: bool = False) -> None:
        """Read every partition from the offset that its task wants next."""
        if anew:
            self.consumer.close()
            self.consumer = self._kafka.consumer(read_committed=True, name=self._name)
        self.consumer.assign({tail.partition: tail.next for tail in tails.values()})


class _Restore:
    """One run of :func:`restore`."""

    def __init__(self, around: Surroundings, reader: _Reader, on_progress: Callable[[RestoreProgress], None]) -> None:
        self._around = around
        self._reader = reader
        self._on_progress = on_progress
        self._tails: list[Tail] = []
        self._pending: dict[int, Tail] = {}
        self._done: dict[TaskId, RestoredTask] = {}

    def run(self, targets: Mapping[TaskId, int]) -> dict[TaskId, RestoredTask]:
        around, consumer = self._around, self._reader.consumer
        chunk = max(MIN_CHUNK_BYTES, around.settings.chunk_bytes // max(1, len(targets)))
        self._tails = [begin_task(around, consumer, task, epoch, chunk) for task, epoch in targets.items()]
        self._pending = {tail.task.partition: tail for tail in self._tails}
        limit_s = base_age_limit_ms(delete_retention_ms(around.topic.config)) / 1000
        self._patience = Patience(self._now(), around.settings.stall_timeout_s, limit_s)
        self._finish_complete()
        self._reader.read_from(self._pending)
        while self._pending:
            around.check_stop()
            if self._read_batch():
                self._patience.moved(self._now())
            self._finish_complete()
            self._on_progress(self._progress())
            self._be_patient()
        return self._done

    def _read_batch(self) -> bool:
        """Apply one batch, and follow positions past what is no record; whether anything moved."""
        settings, pending = self._around.settings, self._pending
        try:
            messages = self._reader.consumer.consume(settings.batch_records, settings.poll_s)
        except InputLostError as error:
            return self._start_over_truncated(error)
        for message in messages:
            tail = pending.get(message.partition())
            if tail is not None:
                tail.add(message.offset(), message.key(), message.value())
        moved = bool(messages)
        for tail in pending.values():
            moved |= tail.pass_markers(self._reader.consumer.position(tail.partition))
        return moved

    def _finish_complete(self) -> None:
        complete = [tail for tail in self._pending.values() if not tail.remaining]
        self._reader.consumer.remove([tail.partition for tail in complete])
        for tail in complete:
            del self._pending[tail.task.partition]
            self._done[tail.task] = tail.finish()
            bases.drop_superseded(self._around.backend, tail.task, tail.epoch)
            log.info("%s@%s restored: %s, %d records", tail.task, tail.epoch, tail.came_from, tail.records)

    def _start_over_truncated(self, cause: InputLostError) -> bool:
        """The log no longer has what a reader wants next: that task starts again from the log's start."""
        moved = False
        for tail in self._pending.values():
            bounds = ask_bounds(self._around, self._reader.consumer, tail.partition)
            if bounds is not None and not bounds.start <= tail.next <= bounds.end:
                self._start_over(tail, bounds, cause)
                moved = True
        self._reader.read_from(self._pending, anew=True)
        return moved

    def _start_over(self, tail: Tail, bounds: Bounds, cause: InputLostError) -> None:
        allowed = self._around.settings.max_restarts
        if tail.restarts >= allowed:
            raise RestoreStalledError(
                f"restore of {tail.partition} started over {allowed} times, because its log start overtook the reader "
                f"(now {bounds.start}, wanted {tail.next}); nothing may be deleted from a changelog: set "
                "cleanup.policy=compact"
            ) from cause
        tail.restarts += 1
        log.warning(
            "%s now holds %d … %d, %s wanted %d: starting over (%d of %d)",
            *(tail.partition, bounds.start, bounds.end, tail.task, tail.next, tail.restarts, allowed),
        )
        store = bases.start_over(self._around.backend, tail.task, tail.epoch, tail.store)
        self._around.opened.callback(store.close)
        tail.begin(store, Source.FULL, bounds.start, bounds.end, None)
        warn_of_lost_start(tail.partition, bounds)

    def _be_patient(self) -> None:
        if not self._pending:
            return
        now = self._now()
        match self._patience.verdict(now):
            case Verdict.READ_ANEW:
                log.warning("no progress for %.0f s, reading anew: %s", self._patience.still_for(now), self._lagging())
                self._reader.read_from(self._pending, anew=True)
            case Verdict.STALLED:
                raise RestoreStalledError(
                    f"restore made no progress for {self._patience.still_for(now):.0f} s: {self._lagging()}; check the "
                    "leader of the partition, and for a transaction that another producer left open "
                    "(kafka-transactions.sh find-hanging)"
                )
            case Verdict.TOO_SLOW:
                raise RestoreStalledError(
                    f"restore took longer than {self._patience.limit_s:.0f} s, half of the changelog's "
                    f"delete.retention.ms: {self._lagging()}; deletes may have left the log unseen, so raise "
                    f"delete.retention.ms of {self._around.topic.name}"
                )
            case Verdict.GO_ON:
                pass

    def _lagging(self) -> str:
        return ", ".join(f"{tail.partition} at offset {tail.next} of {tail.end}" for tail in self._pending.values())

    def _progress(self) -> RestoreProgress:
        return RestoreProgress(
            sum(tail.records for tail in self._tails),
            sum(tail.bytes for tail in self._tails),
            sum(tail.remaining for tail in self._tails),
        )

    def _now(self) -> float:
        return self._around.clock.monotonic_s()
