"""Ends a replica's transactions: which changes and offsets go into one, and what follows its success."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from statemgr.clock import Clock
from statemgr.control.records import ControlRecord, Released
from statemgr.errors import ProducerLostError
from statemgr.kafka.ports import Consumer, TopicInfo
from statemgr.layout import HOT_KEY, changelog_topic, consumer_group
from statemgr.state import TaskState
from statemgr.store import StoreMeta
from statemgr.types import TopicPartition
from towpath.query.plan import StagePlan
from towpath.stage.metrics import StageMetrics
from towpath.stage.tasks import OwnedTask, owner_index, shown_offsets
from towpath.stage.transaction import END_TIMEOUT_S, TaskChanges, Transactor

HOT_KEYS = 4096
"""Keys that a leaving task names as hot: at 100 bytes of key and value half a megabyte, sent in two chunks."""

OFFSETS_REFRESH_S = 3600.0
"""Shown offsets are written again, changed or not: those of an idle partition would expire after a week (R2)."""


def hot_entries(task: OwnedTask) -> list[tuple[bytes, bytes | None]]:
    """The entry by which a leaving task's store names its hottest keys, for whoever takes over."""
    if task.state is None:
        return []
    return [(HOT_KEY, msgspec.msgpack.encode(task.state.hot_keys(HOT_KEYS)))]


class Committer:
    """Commits for one replica, and keeps track of which offsets its group shows."""

    def __init__(
        self,
        plan: StagePlan,
        replica: str,
        transactor: Transactor,
        consumer: Consumer,
        clock: Clock,
        metrics: StageMetrics,
        offsets_interval_s: float,
    ) -> None:
        self._plan = plan
        self._replica = replica
        self._transactor = transactor
        self._consumer = consumer
        self._clock = clock
        self._metrics = metrics
        self._interval_s = offsets_interval_s
        self._group = consumer_group(plan.app, plan.name)
        self._changelog = changelog_topic(plan.app, plan.name)
        self._topics: Mapping[str, TopicInfo] = {}
        self._shown: dict[TopicPartition, int] = {}
        self._shown_s = float("-inf")
        self._refreshed_s = clock.monotonic_s()

    def begin_ownership(self, topics: Mapping[str, TopicInfo]) -> None:
        """Forget what the group showed: another owner may have changed it since."""
        self._topics = topics
        self._shown, self._shown_s = {}, float("-inf")

    def put_off_offsets(self) -> None:
        """Show no newer offsets for an interval: tasks have just come, and their first outputs are waited for.

        A stateless stage's offsets, which are its progress, stay part of every transaction.
        """
        self._shown_s = self._clock.monotonic_s()

    def offsets_due(self, tasks: Collection[OwnedTask]) -> bool:
        """Whether the group is to show newer offsets now."""
        now_s = self._clock.monotonic_s()
        if now_s - self._refreshed_s >= OFFSETS_REFRESH_S:
            self._shown, self._refreshed_s = {}, now_s
        return now_s - self._shown_s >= self._interval_s and bool(self.unshown(tasks))

    def unshown(self, tasks: Collection[OwnedTask]) -> dict[TopicPartition, int]:
        """Offsets ahead of what the group shows; positions pass transaction markers, so that lag reaches 0."""
        for task in tasks:
            for source, offset in task.offsets().items():
                position = self._consumer.position(source)
                if position is not None and position > offset:
                    task.skip(source.topic, position)
        return shown_offsets(tasks, self._shown)

    def commit(
        self,
        tasks: Collection[OwnedTask],
        *,
        timeout_s: float = END_TIMEOUT_S,
        show_offsets: bool = False,
        leaving: Collection[OwnedTask] = (),
        facts: Sequence[ControlRecord] = (),
    ) -> None:
        """Commit what was processed, then write the same changes to the stores (R11).

        Args:
            tasks: all tasks of the replica.
            timeout_s: for all steps together.
            show_offsets: refresh the shown offsets, due or not.
            leaving: tasks of which this is the last transaction; the control log is told the cut, the store its hot
                keys.
            facts: further records for the control log.

        Raises:
            ProducerLostError, RetryableKafkaError: no definite yes; the caller drops everything (R4).
            StoreWriteError: committed, but a store could not be written.
        """
        started_s = self._clock.monotonic_s()
        # First, because it lets positions pass markers, which belong to the progress.
        due = self.offsets_due(tasks) or show_offsets or bool(leaving)
        last = {task.id for task in leaving}
        touched = [task for task in tasks if task.touched or (task.id in last and task.state is not None)]
        changes = {task.id.partition: self._changes(task, task.state) for task in touched if task.state is not None}
        offsets = self._offsets(tasks, touched, due=due)
        self._transactor.begin()
        self._transactor.commit(
            list(changes.values()),
            offsets,
            self._group,
            timeout_s,
            facts=lambda: [*facts, *(self._released(task, changes.get(task.id.partition)) for task in leaving)],
        )
        for task in touched:
            if task.state is not None:
                task.state.apply(self._meta(changes[task.id.partition]), hot_entries(task) if task.id in last else ())
            task.touched = False
            task.note_committed()
        if offsets:
            self._shown |= {source: offset for source, (offset, _) in offsets.items()}
            self._shown_s = self._clock.monotonic_s()
        self._metrics.commits.inc()
        self._metrics.commit_seconds.observe(self._clock.monotonic_s() - started_s)

    def _changes(self, task: OwnedTask, state: TaskState) -> TaskChanges:
        return TaskChanges(self._changelog, task.id.partition, state.changes(), task.progress())

    def _released(self, task: OwnedTask, change: TaskChanges | None) -> Released:
        return Released(
            stage=task.id.stage,
            partition=task.id.partition,
            epoch=task.epoch,
            owner=self._replica,
            started=True,
            offset=-1 if change is None else self._meta(change).offset,
            progress=task.progress() if change is None else change.progress,
            timers=task.timers,
        )

    def _meta(self, change: TaskChanges) -> StoreMeta:
        if change.progress_offset is None:
            raise ProducerLostError(f"no delivery report for the progress record of partition {change.partition}")
        return StoreMeta(
            topic_id=self._topics[change.changelog].topic_id,
            offset=change.progress_offset,
            committed_at_ms=self._clock.wall_ms(),
            epoch=change.progress.epoch,
            progress=change.progress,
        )

    def _offsets(
        self, tasks: Collection[OwnedTask], touched: Sequence[OwnedTask], *, due: bool
    ) -> dict[TopicPartition, tuple[int, str]]:
        """Offsets of this commit: the authority of a stateless stage, a display copy of a keyed one (R2)."""
        if self._plan.stateful:
            offsets = self.unshown(tasks) if due else {}
        else:
            offsets = {source: offset for task in touched for source, offset in task.offsets().items()}
            offsets |= self.unshown(tasks)
        owners = owner_index(tasks)
        return {source: (offset, owners[source.partition].note(source)) for source, offset in offsets.items()}
