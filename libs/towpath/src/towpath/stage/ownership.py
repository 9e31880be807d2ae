"""How a replica becomes the owner of its tasks: state restored, input positions decided.

To be called after the fence (R3): only then no former owner can add to changelog or offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import structlog

from statemgr.changelog.follow import ignore
from statemgr.changelog.model import RestoredTask, RestoreProgress
from statemgr.changelog.restore import restore
from statemgr.clock import Clock
from statemgr.kafka.ports import Consumer, Kafka, TopicInfo
from statemgr.layout import changelog_topic, consumer_group
from statemgr.progress import Progress
from statemgr.state import TaskState, cache_entries_for
from statemgr.store import StoreBackend
from statemgr.types import TaskId, TopicPartition
from towpath.errors import StageStoppedError
from towpath.query.plan import StagePlan
from towpath.stage.metrics import StageMetrics
from towpath.stage.parking import Parking
from towpath.stage.partitions import input_partitions
from towpath.stage.settings import StageSettings
from towpath.stage.start import Recorded, decide_start
from towpath.stage.tasks import OwnedTask, noted_topic_id

log = structlog.get_logger()

QUERY_TIMEOUT_S = 10.0
"""One question about offsets; a live broker answers within milliseconds."""


@dataclass(frozen=True)
class Topics:
    """The topics of a stage as they exist."""

    plan: StagePlan
    infos: Mapping[str, TopicInfo]

    @property
    def tasks(self) -> int:
        """Number of the stage's tasks."""
        return input_partitions(self.plan, self.infos)

    def made_anew(self, now: Topics) -> list[str]:
        """Names of those that by now are others of the same name: what these held is gone."""
        return [name for name, info in self.infos.items() if now.infos[name].topic_id != info.topic_id]

    def inputs_of(self, partition: int) -> list[TopicPartition]:
        """Input partitions of a task; a topic with fewer partitions than the stage has tasks gives it none."""
        return [
            TopicPartition(item.topic, partition)
            for item in self.plan.inputs
            if partition < self.infos[item.topic].partitions
        ]


class Ownership:
    """Acquires tasks for one replica."""

    def __init__(
        self,
        plan: StagePlan,
        settings: StageSettings,
        kafka: Kafka,
        backend: StoreBackend,
        clock: Clock,
        metrics: StageMetrics,
        stopping: Callable[[], bool],
        say: Callable[[str], None],
    ) -> None:
        self._plan = plan
        self._settings = settings
        self._kafka = kafka
        self._backend = backend
        self._clock = clock
        self._metrics = metrics
        self._stopping = stopping
        self._say = say

    def acquire(
        self,
        epochs: Mapping[int, int],
        topics: Topics,
        pause: Callable[[float], object],
        on_progress: Callable[[RestoreProgress], None] = ignore,
        *,
        keep_former: bool = False,
    ) -> list[OwnedTask]:
        """Restore the tasks and decide where each goes on reading.

        Args:
            epochs: partition → the epoch under which it is owned.
            topics: the stage's topics.
            pause: waits that many seconds.
            on_progress: told how far the restore is, after every batch.
            keep_former: leave the stores of former epochs to the state manager, which knows who may need them.

        Raises:
            StageStoppedError: a task's changelog was written under a later epoch.
            InputLostError: the input no longer has what a task needs, and the setting says stop.
            RestoreStalledError, StoreLockedError, …: see :func:`statemgr.changelog.restore.restore`.
            StopRequestedError: asked to stop meanwhile.
        """
        targets = {TaskId(self._plan.name, partition): epoch for partition, epoch in epochs.items()}
        if not targets:
            return []
        restored = {}
        if self._plan.stateful:
            restored = self._restore(targets, topics, pause, on_progress, keep_former=keep_former)
        try:
            return self.own(targets, topics, restored, share=len(targets))
        except BaseException:
            for item in restored.values():
                item.store.close()
            raise

    def own(
        self, targets: Mapping[TaskId, int], topics: Topics, restored: Mapping[TaskId, RestoredTask], *, share: int
    ) -> list[OwnedTask]:
        """Decide where each task goes on reading; its state, if it has any, is there already.

        Args:
            targets: task → epoch.
            topics: the stage's topics.
            restored: task → its store and last progress record.
            share: number of tasks that share the replica's cache.
        """
        consumer = self._kafka.consumer(name=f"{self._settings.replica}-offsets")
        try:
            recorded = self._recorded(consumer, targets, topics, restored)
            return [
                self._own(consumer, task, epoch, topics, recorded, restored.get(task), share)
                for task, epoch in targets.items()
            ]
        finally:
            consumer.close()

    def _restore(
        self,
        targets: Mapping[TaskId, int],
        topics: Topics,
        pause: Callable[[float], object],
        on_progress: Callable[[RestoreProgress], None],
        *,
        keep_former: bool,
    ) -> dict[TaskId, RestoredTask]:
        self._say("restoring state")
        return restore(
            targets,
            self._backend,
            self._kafka,
            topics.infos[changelog_topic(self._plan.app, self._plan.name)],
            name=f"{self._settings.replica}-restore",
            keep_former=keep_former,
            clock=self._clock,
            on_progress=_Told(self._metrics.restored.inc, self._say, on_progress),
            stop=self._stopping,
            pause=pause,
        )

    def _recorded(
        self,
        consumer: Consumer,
        ids: Iterable[TaskId],
        topics: Topics,
        restored: Mapping[TaskId, RestoredTask],
    ) -> dict[TopicPartition, Recorded]:
        """Recorded positions: from the progress record, or of a stateless stage from the group's offsets (R2)."""
        if self._plan.stateful:
            return {
                source: position
                for task, item in restored.items()
                for source, position in _positions(task, item.progress).items()
            }
        sources = [source for task in ids for source in topics.inputs_of(task.partition)]
        group = consumer_group(self._plan.app, self._plan.name)
        committed = consumer.committed(group, sources, QUERY_TIMEOUT_S)
        return {
            source: Recorded(item.offset, noted_topic_id(item.metadata))
            for source, item in committed.items()
            if item.offset is not None
        }

    def _own(
        self,
        consumer: Consumer,
        task: TaskId,
        epoch: int,
        topics: Topics,
        recorded: Mapping[TopicPartition, Recorded],
        restored: RestoredTask | None,
        share: int,
    ) -> OwnedTask:
        progress = restored.progress if restored is not None else None
        if progress is not None and progress.epoch > epoch:
            raise StageStoppedError(
                f"the changelog of {task} was written under epoch {progress.epoch}, this replica has {epoch}: another "
                "coordinator or a static plan runs the same application. Stop one of them"
            )
        positions = {
            source.topic: self._start(consumer, source, recorded.get(source), topics.infos[source.topic].topic_id)
            for source in topics.inputs_of(task.partition)
        }
        # A task without a record writes one soon, so that "latest" stays the moment of the first start.
        new = any(source not in recorded for source in topics.inputs_of(task.partition))
        return self._owned(task, epoch, topics, positions, restored, share, new=new)

    def take_over(self, restored: RestoredTask, topics: Topics, share: int) -> OwnedTask | None:
        """A task whose last owner was at work a moment ago: its progress record says where to go on, unasked.

        Returns:
            None where the record does not fit the inputs as they are; they must be asked then.
        """
        inputs = restored.progress.inputs if restored.progress is not None else {}
        positions: dict[str, int] = {}
        for source in topics.inputs_of(restored.task.partition):
            known = inputs.get(source.topic)
            if known is None or known.topic_id != topics.infos[source.topic].topic_id:
                return None
            positions[source.topic] = known.low
        return self._owned(restored.task, restored.epoch, topics, positions, restored, share, new=False)

    def _owned(
        self,
        task: TaskId,
        epoch: int,
        topics: Topics,
        positions: dict[str, int],
        restored: RestoredTask | None,
        share: int,
        *,
        new: bool,
    ) -> OwnedTask:
        progress = restored.progress if restored is not None else None
        past = progress.inputs if progress is not None else {}
        undone = any(item.low < item.high for item in past.values())
        return OwnedTask(
            task,
            epoch,
            positions,
            {topic: topics.infos[topic].topic_id for topic in positions},
            self.state_of(restored, share),
            touched=new,
            parking=Parking(past) if undone else None,
            recorded_watermarks=progress.watermarks if progress is not None else {},
        )

    def state_of(self, restored: RestoredTask | None, share: int) -> TaskState | None:
        """The tables over a restored store, with a fair share of the replica's cache."""
        if restored is None:
            return None
        cache = cache_entries_for(share, self._settings.cache_entries)
        return TaskState(restored.task, restored.epoch, restored.store, self._plan.tables, cache)

    def _start(self, consumer: Consumer, source: TopicPartition, recorded: Recorded | None, topic_id: str) -> int:
        bounds = consumer.bounds(source, QUERY_TIMEOUT_S)
        start = decide_start(
            source, recorded, bounds, topic_id, self._settings.start_from, self._settings.on_input_loss
        )
        if start.lost:
            self._metrics.skipped.inc(start.lost)
            log.warning("input lost, going on after the gap", source=str(source), records=start.lost)
        return start.offset


def _positions(task: TaskId, progress: Progress | None) -> dict[TopicPartition, Recorded]:
    if progress is None:
        return {}
    return {
        TopicPartition(topic, task.partition): Recorded(item.low, item.topic_id)
        for topic, item in progress.inputs.items()
    }


class _Told:
    """Counts the records of one restore; several may run at the same time."""

    def __init__(
        self,
        count: Callable[[float], None],
        say: Callable[[str], None],
        on_progress: Callable[[RestoreProgress], None],
    ) -> None:
        self._count = count
        self._say = say
        self._on_progress = on_progress
        self._applied = 0

    def __call__(self, progress: RestoreProgress) -> None:
        self._count(progress.records - self._applied)
        self._applied = progress.records
        self._say(f"restoring state: {progress.records} records applied, at most {progress.remaining} to go")
        self._on_progress(progress)
