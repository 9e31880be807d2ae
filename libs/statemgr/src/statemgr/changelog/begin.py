"""Where each task of a restore begins: its base, and the captured end of its changelog partition."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass

from statemgr.changelog import bases
from statemgr.changelog.model import FILL_FROM_RECORDS, RestoreSettings
from statemgr.changelog.tail import Tail
from statemgr.clock import Clock
from statemgr.decisions import (
    Fresh,
    LogFacts,
    RestoreFully,
    UseBase,
    Wait,
    decide_base,
    delete_retention_ms,
    explain,
)
from statemgr.errors import KafkaUnavailableError, RestoreStalledError, RetryableKafkaError, StopRequestedError
from statemgr.kafka.ports import Bounds, Consumer, TopicInfo
from statemgr.store.base import StoreBackend, StoreMeta
from statemgr.types import TaskId, TopicPartition

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Reading:
    """What every reader of a changelog works with: the topic, limits, time, and whether it is to stop."""

    topic: TopicInfo
    settings: RestoreSettings
    clock: Clock
    stop: Callable[[], bool]
    pause: Callable[[float], object]

    def check_stop(self) -> None:
        """Raise StopRequestedError if the process was asked to stop."""
        if self.stop():
            raise StopRequestedError("asked to stop during the restore; it goes on from here at the next start")


@dataclass(frozen=True)
class Surroundings(Reading):
    """What every part of one restore works with.

    Attributes:
        backend: where the stores are.
        opened: closes every store that the restore opened, unless it succeeds.
    """

    backend: StoreBackend
    opened: ExitStack


def begin_task(around: Surroundings, consumer: Consumer, task: TaskId, epoch: int, chunk_bytes: int) -> Tail:
    """Open the task's store, and say from where to where the changelog is to be applied to it.

    Raises:
        RestoreStalledError: the log's bounds stay unknown.
        StopRequestedError: asked to stop meanwhile.
        StoreLockedError, IncompatibleStoreError: the store can't be used.
    """
    source = TopicPartition(around.topic.name, task.partition)
    base = bases.open_newest(around.backend, task, epoch)
    if base is not None:
        around.opened.callback(base.store.close)
    meta = base.meta if base is not None else None
    decision, bounds = decide_when_known(around, consumer, source, meta, epoch)
    log.info("%s@%s: %s", task, epoch, explain(decision))
    if isinstance(decision, UseBase):
        start = decision.from_offset
    else:
        warn_of_lost_start(source, bounds)
        start, meta = bounds.start, None
    filling = is_long(start, bounds.end)
    store, came_from = bases.carry_out(decision, around.backend, task, epoch, base, filling=filling)
    around.opened.callback(store.close)
    tail = Tail(task, epoch, source, around.topic.topic_id, chunk_bytes, around.clock.wall_ms)
    tail.begin(store, came_from, start, bounds.end, meta, filling=filling)
    return tail


def is_long(start: int, end: int) -> bool:
    """Whether offsets ``start`` … ``end`` − 1 are so many that the store is better opened for filling."""
    return end - start >= FILL_FROM_RECORDS


def take_into_use(around: Surroundings, tails: Iterable[Tail]) -> None:
    """Make the stores of finished tails ready for reads, and certain to survive this process.

    Raises:
        StoreWriteError: a store can't be used further.
    """
    filled = [tail for tail in tails if tail.filling]
    for tail, store in zip(filled, around.backend.filled([(each.task, each.epoch) for each in filled]), strict=True):
        around.opened.callback(store.close)
        tail.store = store


def ask_bounds(around: Reading, consumer: Consumer, source: TopicPartition) -> Bounds | None:
    """Log start and high watermark; None while no broker can tell."""
    try:
        return consumer.bounds(source, around.settings.bounds_timeout_s)
    except (RetryableKafkaError, KafkaUnavailableError) as error:
        log.warning("log start and end of %s are not known yet: %s", source, error)
        return None


def warn_of_lost_start(source: TopicPartition, bounds: Bounds) -> None:
    """A changelog is compacted, never cut; say so if one was."""
    if bounds.start > 0:
        log.warning("%s starts at offset %d: what was before cannot be restored", source, bounds.start)


def decide_when_known(
    around: Reading, consumer: Consumer, source: TopicPartition, meta: StoreMeta | None, epoch: int
) -> tuple[UseBase | RestoreFully | Fresh, Bounds]:
    """Ask for the log's bounds until something can be decided; nothing is deleted meanwhile.

    Raises:
        RestoreStalledError: the bounds stay unknown.
        StopRequestedError: asked to stop meanwhile.
    """
    retention_ms = delete_retention_ms(around.topic.config)
    asked_s = around.clock.monotonic_s()
    while True:
        around.check_stop()
        bounds = ask_bounds(around, consumer, source)
        waited_s = around.clock.monotonic_s() - asked_s
        confirmed = waited_s >= around.settings.settle_s
        facts = LogFacts(around.topic.topic_id, bounds, retention_ms, confirmed)
        decision = decide_base(meta, facts, epoch, around.clock.wall_ms())
        if bounds is not None and not isinstance(decision, Wait):
            return decision, bounds
        if waited_s >= around.settings.stall_timeout_s:
            raise RestoreStalledError(
                f"restore of {source} could not begin for {waited_s:.0f} s: {explain(decision)}; check the broker "
                "and the leader of this partition. The local store was left as it is"
            )
        around.pause(around.settings.poll_s)
