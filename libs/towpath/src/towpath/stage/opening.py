"""Opens one arriving task: facts, decision, and what the decision asks for. Runs beside the replica's loop."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any

import structlog

from statemgr.changelog.catch_up import catch_up
from statemgr.changelog.model import RestoredTask, Source
from statemgr.changelog.restore import restore
from statemgr.clock import Clock
from statemgr.control.records import Assigned, Layer, Manner, Released
from statemgr.decisions import LogFacts, delete_retention_ms
from statemgr.errors import (
    HolderUnavailableError,
    KafkaUnavailableError,
    NoSuchCopyError,
    RestoreStalledError,
    RetryableKafkaError,
    StaleBaseError,
    StaleRequestError,
    StopRequestedError,
)
from statemgr.kafka.ports import Bounds, Kafka, TopicInfo
from statemgr.layout import changelog_topic
from statemgr.migration.job import MigrationJob
from statemgr.migration.layered import LayeredStore, begin, record_of
from statemgr.migration.opening import (
    AskAgain,
    LayerFacts,
    Layers,
    NoAnswer,
    OpeningFacts,
    OwnStore,
    Reopen,
    decide_opening,
)
from statemgr.migration.ports import Address, Description, Pending, Spawn, StateClient
from statemgr.migration.record import MigrationRecord
from statemgr.migration.scratch import build_scratch
from statemgr.migration.sources import ScratchSource, UsableLayer
from statemgr.store.base import Store, StoreBackend
from statemgr.types import TaskId, TopicPartition
from towpath.errors import TowpathError
from towpath.query.plan import StagePlan
from towpath.stage.migrating import Migration, no_lists
from towpath.stage.ownership import Ownership, Topics
from towpath.stage.parking import Parking
from towpath.stage.reading import Readings
from towpath.stage.settings import StageSettings
from towpath.stage.tasks import OwnedTask

log = structlog.get_logger()

PATIENCE_S = 3.0
"""How long holders that see us as owner only later are asked again before the task goes on without them."""

SILENT_S = 1.5
"""How long holders that do not answer are asked again: a state manager that was started again needs about one second,
and without its copy all of the task is read from the changelog. Nobody knows here whether a holder's machine is gone:
where it is, the task waits so long in vain, and one more question."""

DECIDE_S = 60.0
"""How long the changelog's ends may stay unknown; the broker is then named."""

ASK_TIMEOUT_S = 1.0
"""One question what a holder has: opening a secondary takes 0.25 s on a busy machine, four times that."""

ASK_AGAIN_S = 0.1
_LOOK_S = 0.005
_BOUNDS_TIMEOUT_S = 5.0


def said_by(pending: Pending[Description]) -> Description | NoAnswer:
    """What a holder said of its copy."""
    try:
        return pending.result()
    except StaleRequestError as error:
        log.warning("a copy can't be used", cause=str(error))
        return NoAnswer.LATER if error.later else NoAnswer.LOST
    except HolderUnavailableError as error:
        log.warning("a copy can't be asked for", cause=str(error))
        return NoAnswer.SILENT
    except NoSuchCopyError as error:
        log.warning("a copy can't be used", cause=str(error))
        return NoAnswer.LOST


class Opening:
    """Opens tasks of one replica.

    Args:
        plan: the stage.
        settings: of the replica.
        kafka: the cluster.
        backend: the replica's stores.
        clock: time.
        client: asks state managers.
        ownership: decides where a task goes on reading.
        rebuild: runs the making of scratch bases.
        stopping: whether nothing is worth going on with; a replica that waits for its tasks to be moved away still
            takes up what is on its way to it.
        pause: waits that many seconds.
    """

    def __init__(
        self,
        plan: StagePlan,
        settings: StageSettings,
        kafka: Kafka,
        backend: StoreBackend,
        clock: Clock,
        client: StateClient,
        ownership: Ownership,
        rebuild: Spawn,
        stopping: Callable[[], bool],
        pause: Callable[[float], object],
    ) -> None:
        self._plan = plan
        self._settings = settings
        self._kafka = kafka
        self._backend = backend
        self._clock = clock
        self._client = client
        self._ownership = ownership
        self._rebuild = rebuild
        self._stopping = stopping
        self._pause = pause
        self.topics: Topics | None = None
        self._readings = Readings(clock)
        self._wanted: set[tuple[TaskId, int]] = set()
        self._prepared: dict[tuple[TaskId, int], Store] = {}
        self._lock = threading.Lock()  # a preparation may be dropped and begun again before its first one has run

    def prepare(self, task: TaskId, epoch: int) -> Callable[[], None]:
        """Want the empty store of an epoch that will probably come; gives the work that opens it.

        Creating one takes 30 ms on a busy machine. Work that comes after :meth:`forget` opens nothing.
        """
        self._wanted.add((task, epoch))

        def work() -> None:
            with self._lock:
                if (task, epoch) in self._wanted and (task, epoch) not in self._prepared:
                    self._backend.destroy(task, epoch)
                    self._prepared[task, epoch] = self._backend.open(task, epoch)

        return work

    def forget(self, task: TaskId, epoch: int) -> None:
        """Delete the store of an epoch that did not come."""
        with self._lock:
            self._wanted.discard((task, epoch))
            store = self._prepared.pop((task, epoch), None)
            if store is not None:
                store.close()
                self._backend.destroy(task, epoch)

    def is_prepared(self, task: TaskId, epoch: int) -> bool:
        """Whether the task's only store of that epoch is an empty one that was prepared."""
        return (task, epoch) in self._prepared

    def restore(self, epochs: Mapping[int, int]) -> list[OwnedTask]:
        """Tasks from the changelog, each with the newest complete store of this replica if that is a base.

        Args:
            epochs: partition → epoch.
        """
        tasks = {TaskId(self._plan.name, partition): epoch for partition, epoch in epochs.items()}
        for task, epoch in tasks.items():
            self.forget(task, epoch)  # prepared before the strategy was changed
        with self._readings.follow(tasks) as told:
            return self._ownership.acquire(epochs, self._known_topics, self._pause, told, keep_former=True)

    def read(self, task: TaskId, epoch: int) -> dict[str, Any]:
        """How far the changelog has been read for a task on its way; empty: it is not being read."""
        return self._readings.of(task, epoch)

    def at_cut(self, assigned: Assigned, released: Released) -> OwnedTask:
        """A task whose cut the log names and whose one layer is the releaser's: nothing is asked or read first."""
        facts = OpeningFacts(
            epoch=assigned.epoch,
            log=LogFacts(self._changelog.topic_id, Bounds(0, released.offset + 1)),
            now_ms=self._clock.wall_ms(),
            manner=assigned.manner,
            layers=[LayerFacts(layer, NoAnswer.NOT_ASKED) for layer in assigned.layers],
            released=released,
        )
        return self._carry_out(assigned, decide_opening(facts))

    def open(
        self, assigned: Assigned, released: Released | None, said: Mapping[Layer, Description | NoAnswer]
    ) -> OwnedTask:
        """A task by whichever base the facts allow; what turns out to be none leads to the changelog.

        Args:
            assigned: the assignment.
            released: the newest release of the task.
            said: what holders said; none is silent but those that are still to be asked again.

        Raises:
            HolderUnavailableError: nothing can be decided without one that is silent.
            RestoreStalledError: nothing could be decided before the deadline.
            StateError, TowpathError: see :class:`towpath.stage.ownership.Ownership`.
        """
        self.forget(assigned.task, assigned.epoch)
        began_s = self._clock.monotonic_s()
        while True:
            waited_s = self._clock.monotonic_s() - began_s
            facts = self._facts(assigned, released, said, patient=waited_s < PATIENCE_S)
            decision = decide_opening(facts)
            if not isinstance(decision, AskAgain):
                return self._carry_out(assigned, decision)
            if NoAnswer.SILENT in said.values():
                raise HolderUnavailableError(f"{assigned.task} can't be opened yet: {decision.reason}")
            if self._stopping():
                raise StopRequestedError(f"asked to stop while opening {assigned.task}")
            if waited_s >= DECIDE_S:
                raise RestoreStalledError(
                    f"{assigned.task} could not be opened for {waited_s:.0f} s: {decision.reason}"
                )
            self._pause(ASK_AGAIN_S)
            said = self._ask_again(assigned, said)

    def _carry_out(self, assigned: Assigned, decision: object) -> OwnedTask:
        log.info("opening", task=str(assigned.task), epoch=assigned.epoch, by=type(decision).__name__)
        try:
            match decision:
                case Reopen(_, MigrationRecord() as record, sources):
                    store = self._backend.open(assigned.task, assigned.epoch)
                    return self._over(assigned, LayeredStore(store, record), sources, tail=True)
                case Layers(sources, meta, tail):
                    store = self._empty(assigned)
                    layered = begin(store, [source.layer for source in sources], meta)
                    return self._over(assigned, layered, sources, tail=tail)
                case _:
                    return self.restore({assigned.partition: assigned.epoch})[0]
        except StaleBaseError as error:
            log.warning("no layer can be used, restoring from the changelog", task=str(assigned.task), cause=str(error))
            self._backend.destroy(assigned.task, assigned.epoch)
            return self.restore({assigned.partition: assigned.epoch})[0]

    def _empty(self, assigned: Assigned) -> Store:
        """A new store for this epoch; what a former life left of it was looked at already."""
        with self._lock:
            self._wanted.discard((assigned.task, assigned.epoch))
            prepared = self._prepared.pop((assigned.task, assigned.epoch), None)
        if prepared is not None:
            return prepared
        self._backend.destroy(assigned.task, assigned.epoch)
        return self._backend.open(assigned.task, assigned.epoch)

    def _over(
        self, assigned: Assigned, layered: LayeredStore, usable: Sequence[UsableLayer], *, tail: bool
    ) -> OwnedTask:
        """The task over its layers, with the job that brings the rest."""
        try:
            restored = self._tail(assigned, layered) if tail else _as_it_is(assigned, layered)
            meta = layered.meta()
            layered.took_over(meta.offset if meta is not None else -1)
            return self._running(assigned, restored, layered, usable)
        except BaseException:
            layered.close()
            raise

    def _tail(self, assigned: Assigned, layered: LayeredStore) -> RestoredTask:
        with self._readings.follow({assigned.task: assigned.epoch}) as told:
            return catch_up(
                assigned.task,
                assigned.epoch,
                layered,
                self._kafka,
                self._changelog,
                name=f"{self._settings.replica}-tail",
                clock=self._clock,
                on_progress=told,
                stop=self._stopping,
                pause=self._pause,
            )

    def _running(
        self, assigned: Assigned, restored: RestoredTask, layered: LayeredStore, usable: Sequence[UsableLayer]
    ) -> OwnedTask:
        topics = self._known_topics
        task = self._ownership.take_over(restored, topics, topics.tasks)
        if task is None:
            targets = {restored.task: restored.epoch}
            (task,) = self._ownership.own(targets, topics, {restored.task: restored}, share=topics.tasks)
        parking = task.parking or Parking()
        task.parking = parking
        job = self.make_job(assigned.task, assigned.epoch, assigned.manner, layered, usable)
        task.migration = Migration(
            job,
            parking.resolved,
            lambda: self.read(assigned.task, assigned.epoch),
            task.state.rest_of if task.state is not None else no_lists,
        )
        return task

    def make_job(
        self, task: TaskId, epoch: int, manner: Manner, layered: LayeredStore, usable: Sequence[UsableLayer]
    ) -> MigrationJob:
        """The job that brings what is not here yet."""

        def scratch() -> ScratchSource:
            with self._readings.follow({task: epoch}) as told:
                return build_scratch(
                    task,
                    epoch,
                    layered.record.cut,
                    self._backend,
                    self._kafka,
                    self._changelog,
                    name=f"{self._settings.replica}-scratch",
                    clock=self._clock,
                    on_progress=told,
                    stop=lambda: job.closed or self._stopping(),
                    pause=self._pause,
                )

        job = MigrationJob(task, epoch, layered, usable, self._client, self._clock, manner, self._rebuild, scratch)
        return job

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
            keep_former=True,
            in_use=True,
            clock=self._clock,
            stop=self._stopping,
            pause=self._pause,
        )
        restored[task].store.close()

    @property
    def _known_topics(self) -> Topics:
        if self.topics is None:
            raise TowpathError("a task was opened before the topics were known")
        return self.topics

    @property
    def _changelog(self) -> TopicInfo:
        return self._known_topics.infos[changelog_topic(self._plan.app, self._plan.name)]

    def _facts(
        self,
        assigned: Assigned,
        released: Released | None,
        said: Mapping[Layer, Description | NoAnswer],
        *,
        patient: bool,
    ) -> OpeningFacts:
        return OpeningFacts(
            epoch=assigned.epoch,
            log=self._log_facts(assigned),
            now_ms=self._clock.wall_ms(),
            manner=assigned.manner,
            own=[self._own_store(assigned.task, epoch) for epoch in self._backend.existing(assigned.task)],
            layers=[LayerFacts(layer, said.get(layer, NoAnswer.NOT_ASKED)) for layer in assigned.layers],
            released=released,
            patient=patient,
        )

    def _log_facts(self, assigned: Assigned) -> LogFacts:
        retention_ms = delete_retention_ms(self._changelog.config)
        source = TopicPartition(self._changelog.name, assigned.partition)
        with closing(self._kafka.consumer(name=f"{self._settings.replica}-opening")) as consumer:
            try:
                bounds = consumer.bounds(source, _BOUNDS_TIMEOUT_S)
            except (RetryableKafkaError, KafkaUnavailableError):
                return LogFacts(self._changelog.topic_id, None, retention_ms)
        return LogFacts(self._changelog.topic_id, bounds, retention_ms)

    def _own_store(self, task: TaskId, epoch: int) -> OwnStore:
        with closing(self._backend.open(task, epoch)) as store:
            return OwnStore(epoch, store.meta(), record_of(store))

    def _ask_again(
        self, assigned: Assigned, said: Mapping[Layer, Description | NoAnswer]
    ) -> dict[Layer, Description | NoAnswer]:
        """Ask those holders again that have not described their copy."""
        again = {
            layer: self._client.describe(Address(assigned.task, layer, assigned.epoch), -1, ASK_TIMEOUT_S)
            for layer in assigned.layers
            if not isinstance(said.get(layer), Description)
        }
        while not all(pending.done() for pending in again.values()):
            self._pause(_LOOK_S)
        return {**said, **{layer: said_by(pending) for layer, pending in again.items()}}


def _as_it_is(assigned: Assigned, layered: LayeredStore) -> RestoredTask:
    """A store that stands at the cut."""
    meta = layered.meta()
    progress = meta.progress if meta is not None else None
    return RestoredTask(assigned.task, assigned.epoch, layered, progress, Source.TAIL, 0, 0)
