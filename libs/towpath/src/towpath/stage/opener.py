"""Makes an arriving task's store ready, beside the replica's loop: by whichever base the facts allow.

::

    stateless stage, replay, restart, no layer     full restore, or the own store and its tail (several tasks at once)
    the log names the cut, the layer is its store  empty store over the layers; nothing to read
    else                                           what the facts say: reopen, own base, layers and tail, full restore
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec
import structlog

from statemgr.changelog.catch_up import catch_up
from statemgr.changelog.model import RestoredTask, Source
from statemgr.changelog.restore import restore
from statemgr.clock import Clock
from statemgr.control.records import Assigned, Layer, Manner, Released, Strategy
from statemgr.errors import HolderUnavailableError, StaleBaseError, StateError
from statemgr.kafka.ports import Kafka, TopicInfo
from statemgr.layout import changelog_topic
from statemgr.migration.job import MigrationJob
from statemgr.migration.layered import LayeredStore, begin, record_of, reopen
from statemgr.migration.ports import Description, Pending, StateClient
from statemgr.migration.scratch import build_scratch
from statemgr.migration.sources import UsableLayer
from statemgr.store.base import Store, StoreBackend, StoreMeta
from statemgr.types import TaskId
from towpath.errors import TowpathError
from towpath.query.plan import StagePlan
from towpath.stage.background import Spawn
from towpath.stage.metrics import StageMetrics
from towpath.stage.migrating import Migration
from towpath.stage.ownership import Ownership, Topics
from towpath.stage.parking import Parking
from towpath.stage.settings import StageSettings
from towpath.stage.tasks import OwnedTask

log = structlog.get_logger()

MOST_LAYERS = 3
"""Copies that a task may depend on: three owners before the first had everything (R7)."""

SHORT_TAIL = 20_000
"""Changelog offsets that are read before the first row rather than asking others: 0.1 s at 180,000 records a second."""

FROM_CHANGELOG = frozenset({Strategy.RESTART, Strategy.REPLAY})
"""Strategies that take nothing from another holder."""


def known_cut(assigned: Assigned, released: Released | None) -> Released | None:
    """The release that says all there is to know of the only layer; None where its holder must be asked.

    It is the release of the owner just before, which ran, named its cut, and has the one store that there is.
    """
    if released is None or not released.started or released.progress is None:
        return None
    if released.epoch != assigned.epoch - 1 or [layer.epoch for layer in assigned.layers] != [released.epoch]:
        return None
    return released


def usable_layers(assigned: Assigned, released: Released | None) -> tuple[Layer, ...]:
    """The layers without one whose owner never started, and so never wrote."""
    void = released.epoch if released is not None and not released.started else None
    return tuple(layer for layer in assigned.layers if layer.epoch != void)


def depends_on(top: Layer, described: Description) -> tuple[Layer, ...]:
    """A copy and those that it was made over itself, as far as they are still needed; at most three (R7)."""
    return (top, *described.layers)[:MOST_LAYERS]


@dataclass
class _Slot:
    """A task of a restore that several tasks share; the restore starts at the end of the turn."""

    partition: int
    epoch: int
    restore: Pending[list[OwnedTask]] | None = None

    def done(self) -> bool:
        return self.restore is not None and self.restore.done()

    def result(self) -> OwnedTask:
        if self.restore is None:
            raise HolderUnavailableError(f"the restore of partition {self.partition} has not begun")
        return next(task for task in self.restore.result() if task.id.partition == self.partition)


class Opener:
    """Opens stores for one replica.

    Args:
        plan: the stage.
        settings: of the replica.
        kafka: the cluster.
        backend: the replica's stores.
        clock: time.
        metrics: of the replica.
        client: asks state managers.
        spawn: runs what takes long.
        stopping: whether the process was asked to stop.
        pause: waits that many seconds.
    """

    def __init__(
        self,
        plan: StagePlan,
        settings: StageSettings,
        kafka: Kafka,
        backend: StoreBackend,
        clock: Clock,
        metrics: StageMetrics,
        client: StateClient,
        spawn: Spawn,
        stopping: Callable[[], bool],
        pause: Callable[[float], object],
    ) -> None:
        self._plan = plan
        self._settings = settings
        self._kafka = kafka
        self._backend = backend
        self._clock = clock
        self._client = client
        self._spawn = spawn
        self._stopping = stopping
        self._pause = pause
        self._ownership = Ownership(plan, settings, kafka, backend, clock, metrics, stopping, _say_nothing)
        self._topics: Topics | None = None
        self._slots: list[_Slot] = []
        self._closing: dict[TaskId, Pending[None]] = {}
        self._delayed: list[_Delayed] = []

    @property
    def stage(self) -> str:
        """The stage's name."""
        return self._plan.name

    def begin(self, topics: Topics) -> None:
        """Start anew after a fence."""
        self._topics = topics

    def turn(self) -> None:
        """Start what was asked for since the last turn: one restore for all tasks that need one."""
        self._closing = {task: pending for task, pending in self._closing.items() if not pending.done()}
        for delayed in [each for each in self._delayed if each.task not in self._closing]:
            self._delayed.remove(delayed)
            delayed.start()
        slots = [slot for slot in self._slots if TaskId(self.stage, slot.partition) not in self._closing]
        if slots:
            epochs = {slot.partition: slot.epoch for slot in slots}
            restore = self._spawn(lambda: self._ownership.acquire(epochs, self._known_topics, self._pause))
            for slot in slots:
                slot.restore = restore
                self._slots.remove(slot)

    def needs_no_description(self, assigned: Assigned, released: Released | None) -> bool:
        """Whether the log alone says how to open the task."""
        if not self._plan.stateful or assigned.manner.strategy in FROM_CHANGELOG:
            return True
        if not usable_layers(assigned, released):
            return True
        return known_cut(assigned, released) is not None and not self._older(assigned)

    def open(
        self, assigned: Assigned, released: Released | None, described: Mapping[Layer, Description | None]
    ) -> Pending[OwnedTask]:
        """Begin to make a task ready.

        Args:
            assigned: the assignment; every earlier owner has ended.
            released: the newest release of the task.
            described: what the holders of the layers said; None where one has nothing or did not answer.
        """
        layers = usable_layers(assigned, released)
        if not self._plan.stateful or assigned.manner.strategy in FROM_CHANGELOG or not layers:
            return self._restore(assigned)
        delayed = _Delayed(
            assigned.task,
            lambda: self._spawn(lambda: self._open(assigned, released, layers, described)),
        )
        self._delayed.append(delayed)
        return delayed

    def top_up(self, task: TaskId, epoch: int, store: Store | None) -> None:
        """Bring a complete copy to the changelog's end; takes as long as the tail is."""
        if store is not None:
            store.close()
        restored = restore(
            {task: epoch},
            self._backend,
            self._kafka,
            self._changelog,
            name=f"{self._settings.replica}-standby",
            clock=self._clock,
            stop=self._stopping,
            pause=self._pause,
        )
        restored[task].store.close()

    def hold(self, task: TaskId, freed: Pending[None]) -> None:
        """Open nothing of a task before its store is free."""
        self._closing[task] = freed

    def put_away(self, task: OwnedTask) -> None:
        """Close the store of a task that was released: flushing it may take a while."""
        state = task.state
        if state is not None:
            self._closing[task.id] = self._spawn(state.close)

    def abandon(self, opening: Pending[OwnedTask] | None, task: OwnedTask | None) -> None:
        """Close what was opened for a task that will not run here."""
        if task is not None:
            self.put_away(task)
        elif isinstance(opening, _Slot):
            if opening in self._slots:
                self._slots.remove(opening)
            else:
                self._closing[TaskId(self.stage, opening.partition)] = _Closed(opening)
        elif isinstance(opening, _Delayed):
            if opening in self._delayed:
                self._delayed.remove(opening)
            else:
                self._closing[opening.task] = _Closed(opening)

    def drop(self) -> None:
        """Wait for nothing any more; what runs in the background closes its stores when it ends."""
        self._slots = []
        self._delayed = []

    @property
    def _known_topics(self) -> Topics:
        if self._topics is None:
            raise TowpathError("a task was opened before the topics were known")
        return self._topics

    @property
    def _changelog(self) -> TopicInfo:
        return self._known_topics.infos[changelog_topic(self._plan.app, self._plan.name)]

    def _restore(self, assigned: Assigned) -> Pending[OwnedTask]:
        slot = _Slot(assigned.partition, assigned.epoch)
        self._slots.append(slot)
        return slot

    def _older(self, assigned: Assigned) -> list[int]:
        """Epochs of which this replica has a store of the task, its own former ones and a prepared one."""
        return self._backend.existing(assigned.task)

    def _open(
        self,
        assigned: Assigned,
        released: Released | None,
        layers: Sequence[Layer],
        described: Mapping[Layer, Description | None],
    ) -> OwnedTask:
        """By whichever base the facts allow; what turns out to be none leads to the changelog."""
        tops = {layer: known for layer in layers if (known := described.get(layer)) is not None}
        try:
            reopened = self._reopened(assigned, tops)
            if reopened is not None:
                return reopened
            if assigned.epoch in self._older(assigned):  # a complete copy, made for this very move
                return self._from_changelog(assigned)
            cut = known_cut(assigned, released)
            newest = cut.offset if cut is not None else max((_offset(known) for known in tops.values()), default=None)
            if newest is not None and not self._short_tail(assigned, newest):
                if cut is not None:
                    return self._take_over(assigned, cut, layers)
                top = next(layer for layer in layers if layer in tops)
                return self._over_layers(assigned, depends_on(top, tops[top]), tops)
        except StaleBaseError as error:
            log.warning("no layer can be used, restoring from the changelog", task=str(assigned.task), cause=str(error))
            self._backend.destroy(assigned.task, assigned.epoch)
        return self._from_changelog(assigned)

    def _from_changelog(self, assigned: Assigned) -> OwnedTask:
        """By the newest complete store of this replica, if there is one, and the changelog."""
        (task,) = self._ownership.acquire({assigned.partition: assigned.epoch}, self._known_topics, self._pause)
        return task

    def _reopened(self, assigned: Assigned, tops: Mapping[Layer, Description]) -> OwnedTask | None:
        """The store that a former life of this replica, or a preparation, left incomplete for this very epoch."""
        if assigned.epoch not in self._older(assigned):
            return None
        store = self._backend.open(assigned.task, assigned.epoch)
        layered = reopen(store)
        if not isinstance(layered, LayeredStore):
            layered.close()
            return None
        return self._caught_up(assigned, layered, [_usable(layer, tops) for layer in layered.record.layers])

    def _short_tail(self, assigned: Assigned, newest: int) -> bool:
        """Whether a complete store of this replica lacks so little that the changelog is the quickest way."""
        for epoch in reversed(self._older(assigned)):
            store = self._backend.open(assigned.task, epoch)
            try:
                meta = store.meta()
                if meta is not None and record_of(store) is None:
                    return meta.topic_id == self._changelog.topic_id and newest - meta.offset <= SHORT_TAIL
            finally:
                store.close()
        return False

    def _take_over(self, assigned: Assigned, cut: Released, layers: Sequence[Layer]) -> OwnedTask:
        """The log names the cut: nothing is read before the first row."""
        store = self._empty(assigned)
        progress = cut.progress
        meta = StoreMeta(self._changelog.topic_id, cut.offset, self._clock.wall_ms(), assigned.epoch, progress)
        layered = begin(store, layers, meta)
        usable = [UsableLayer(layers[0], cut.offset), *(UsableLayer(layer) for layer in layers[1:])]
        restored = RestoredTask(assigned.task, assigned.epoch, layered, progress, Source.TAIL, 0, 0)
        return self._running(assigned, restored, layered, usable)

    def _over_layers(self, assigned: Assigned, layers: Sequence[Layer], tops: Mapping[Layer, Description]) -> OwnedTask:
        """A holder told its X: the changelog's tail behind it is applied before the first row."""
        top = tops[layers[0]]
        if top.meta is None:
            raise StaleBaseError(f"the copy of {assigned.task} at {layers[0].holder} holds nothing")
        layered = begin(self._empty(assigned), layers, msgspec.structs.replace(top.meta, epoch=assigned.epoch))
        return self._caught_up(assigned, layered, [_usable(layer, tops) for layer in layers])

    def _caught_up(self, assigned: Assigned, layered: LayeredStore, usable: Sequence[UsableLayer]) -> OwnedTask:
        try:
            restored = self._tail(assigned, layered)
            meta = layered.meta()
            layered.took_over(meta.offset if meta is not None else -1)
            return self._running(assigned, restored, layered, usable)
        except BaseException:
            layered.close()
            raise

    def _tail(self, assigned: Assigned, layered: LayeredStore) -> RestoredTask:
        return catch_up(
            assigned.task,
            assigned.epoch,
            layered,
            self._kafka,
            self._changelog,
            name=f"{self._settings.replica}-tail",
            clock=self._clock,
            stop=self._stopping,
            pause=self._pause,
        )

    def _running(
        self, assigned: Assigned, restored: RestoredTask, layered: LayeredStore, usable: Sequence[UsableLayer]
    ) -> OwnedTask:
        """The task over its layers, with the job that brings the rest."""
        topics, share = self._known_topics, max(1, self._known_topics.tasks)
        task = self._ownership.take_over(restored, topics, share)
        if task is None:
            (task,) = self._ownership.own(
                {restored.task: restored.epoch}, topics, {restored.task: restored}, share=share
            )
        parking = task.parking or Parking()
        task.parking = parking
        job = self.make_job(assigned.task, assigned.epoch, assigned.manner, layered, usable)
        task.migration = Migration(job, parking.resolved)
        return task

    def make_job(
        self, task: TaskId, epoch: int, manner: Manner, layered: LayeredStore, usable: Sequence[UsableLayer]
    ) -> MigrationJob:
        """The job that brings what is not here yet."""
        return MigrationJob(
            task,
            epoch,
            layered,
            usable,
            self._client,
            self._clock,
            manner,
            self._spawn,
            lambda: build_scratch(
                task,
                epoch,
                layered.record.cut,
                self._backend,
                self._kafka,
                self._changelog,
                name=f"{self._settings.replica}-scratch",
                clock=self._clock,
                stop=self._stopping,
                pause=self._pause,
            ),
        )

    def _empty(self, assigned: Assigned) -> Store:
        """A new store for this epoch; what a former life left of it holds nothing that counts."""
        self._backend.destroy(assigned.task, assigned.epoch)
        return self._backend.open(assigned.task, assigned.epoch)


@dataclass
class _Delayed:
    """An opening that waits until an older store of its task is closed."""

    task: TaskId
    begin: Callable[[], Pending[OwnedTask]]
    opening: Pending[OwnedTask] | None = None

    def start(self) -> None:
        self.opening = self.begin()

    def done(self) -> bool:
        return self.opening is not None and self.opening.done()

    def result(self) -> OwnedTask:
        if self.opening is None:
            raise HolderUnavailableError(f"the opening of {self.task} has not begun")
        return self.opening.result()


class _Closed:
    """Closes the store of a task that nobody wants any more, once it has been opened."""

    def __init__(self, opening: Pending[OwnedTask]) -> None:
        self._opening = opening

    def done(self) -> bool:
        if not self._opening.done():
            return False
        with suppress(StateError, TowpathError):
            state = self._opening.result().state
            if state is not None:
                state.close()
        return True

    def result(self) -> None:
        return None


def _offset(described: Description) -> int:
    return described.meta.offset if described.meta is not None else -1


def _usable(layer: Layer, tops: Mapping[Layer, Description]) -> UsableLayer:
    known = tops.get(layer)
    return UsableLayer(layer) if known is None else UsableLayer(layer, _offset(known), known.complete)


def _say_nothing(what: str) -> None:
    """A restore beside the loop is no work of the loop."""
