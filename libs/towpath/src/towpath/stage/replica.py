"""One replica of a stage: owns tasks, and moves them forward one batch at a time.

``run()`` is the whole life of a replica: ``turn()`` until it is asked to stop, then ``finish()``. Drivers that want to
hold the reins (:mod:`towpath.testing`) call these themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import structlog

from statemgr.clock import Clock
from statemgr.control.records import ControlRecord
from statemgr.errors import (
    CorruptStoreError,
    InputLostError,
    KafkaRefusedError,
    KafkaUnavailableError,
    ProducerLostError,
    RestoreStalledError,
    RetryableKafkaError,
    StateError,
    StopRequestedError,
)
from statemgr.kafka.ports import Kafka, Message
from statemgr.layout import consumer_group, control_topic, transactional_id
from statemgr.state import TaskState
from statemgr.store import StoreBackend
from statemgr.types import TopicPartition
from towpath.query.plan import StagePlan
from towpath.stage.assignment import STATIC_EPOCH, StaticAssignment
from towpath.stage.committer import Committer
from towpath.stage.coordinated import Coordinated
from towpath.stage.ends import Ends
from towpath.stage.metrics import StageMetrics
from towpath.stage.ownership import Ownership, Topics
from towpath.stage.phases import Phase, PhaseMachine
from towpath.stage.processor import FrameProcessor, MakeProcessor
from towpath.stage.rhythm import ALERT_S, LEAST_WAIT_S, Rhythm
from towpath.stage.settings import StageSettings
from towpath.stage.standing import Standing
from towpath.stage.tasks import OwnedTask, owner_index
from towpath.stage.topics import prepare_topics
from towpath.stage.transaction import END_TIMEOUT_S, FINAL_END_TIMEOUT_S, Transactor
from towpath.stage.work import Work, batch_named

log = structlog.get_logger()

FIRST_BACKOFF_S = 0.1
LAST_BACKOFF_S = 5.0
"""Waits between attempts to become owner again: doubled from the first to the last, until a commit succeeds."""

NO_ANSWER = (ProducerLostError, RetryableKafkaError)
"""The producer is lost, or a call that may be repeated had no answer before its deadline: both end ownership (R4)."""


@dataclass(frozen=True)
class Controls:
    """How the outside reaches into a replica.

    Attributes:
        stopping: whether it was asked to stop.
        pause: waits that many seconds; a stop request ends it.
        draining: told again and again while the replica, asked to stop, waits for its tasks to be moved away.
        sleep: waits that many seconds, whatever is asked meanwhile: a replica that drains works as any other. None:
            ``pause`` does.
    """

    stopping: Callable[[], bool]
    pause: Callable[[float], object]
    draining: Callable[[], object] = lambda: None
    sleep: Callable[[float], object] | None = None


class Replica:
    """Runs one replica; single-threaded."""

    def __init__(
        self,
        plan: StagePlan,
        settings: StageSettings,
        kafka: Kafka,
        backend: StoreBackend,
        clock: Clock,
        metrics: StageMetrics,
        controls: Controls,
        make_processor: MakeProcessor = FrameProcessor,
        coordinated: Coordinated | None = None,
    ) -> None:
        """``coordinated``: what says which tasks are owned; None: the static plan in the settings."""
        self._plan = plan
        self._settings = settings
        self._kafka = kafka
        self._backend = backend
        self._clock = clock
        self._metrics = metrics
        self._controls = controls
        self._rhythm = Rhythm(plan, settings)
        self._consumer = kafka.consumer(name=settings.replica, columns=True)
        self._ends = Ends(self._consumer)
        self._standing = Standing(metrics, self._consumer.lag, clock)
        self._coordinated = coordinated
        self._transactor = Transactor(
            kafka,
            plan.app,
            transactional_id(plan.app, plan.name, settings.replica),
            settings.replica,
            settings.guarantee,
            clock,
        )
        self._committer = Committer(
            plan,
            settings.replica,
            self._transactor,
            self._consumer,
            clock,
            metrics,
            settings.offsets_interval_ms / 1000,
        )
        self._processor = make_processor(plan, settings, self._transactor, metrics, clock)
        self._machine = PhaseMachine(self._phase_changed)
        self._topics: Topics | None = None
        self._tasks: dict[int, OwnedTask] = {}
        self._resting: set[TopicPartition] = set()
        self._backoff_s = FIRST_BACKOFF_S
        self.work = Work(clock.monotonic_s())
        self.lost_s: float | None = None

    @property
    def phase(self) -> Phase:
        """The replica's phase."""
        return self._machine.phase

    @property
    def owned(self) -> Mapping[int, OwnedTask]:
        """Tasks owned now, by partition."""
        return self._tasks

    def run(self) -> None:
        """Live until asked to stop.

        Raises:
            StateError, TowpathError: what needs an operator's decision; the phase is then ``failed``.
        """
        try:
            self._turn_until_stopped()
            self.finish()
        except BaseException:
            self.fail()
            raise

    def turn(self) -> int:
        """One turn of life: become owner if need be, else :meth:`step`. A lost producer (R4) or store is survived.

        Returns:
            Kafka records taken.

        Raises:
            StopRequestedError: asked to stop while becoming owner; :meth:`finish` is next.
            StateError, TowpathError: what needs an operator's decision; :meth:`fail` is next.
        """
        try:
            if self.phase is not Phase.RUNNING:
                self.start()
                return 0
            return self.step()
        except NO_ANSWER as error:
            self._start_over(error)
        except InputLostError as error:
            if self.phase is not Phase.RUNNING:
                raise
            self._start_over(error)  # where reading goes on, or that it does not, is decided at the start
        except KafkaUnavailableError as error:
            refused = isinstance(error, KafkaRefusedError)
            if self.phase is not Phase.RESTORING and (self.phase is not Phase.RUNNING or refused):
                raise
            self._start_over(error)  # the broker was there a moment ago, or nobody could have been fenced
        except RestoreStalledError as error:
            if self._coordinated is None or self.phase is not Phase.RESTORING:
                raise
            self._start_over(error)  # the control log stands still for everybody: nobody else would do better
        except CorruptStoreError as error:
            self._start_over(error)
            self._backend.destroy(error.task, error.epoch)  # the changelog rebuilds it
        return 0

    def start(self) -> None:
        """Prepare topics, fence former owners, restore state: afterwards the replica owns its tasks.

        Raises:
            ProducerLostError: fenced meanwhile; call again.
            StopRequestedError: asked to stop meanwhile.
        """
        again = self._topics is not None
        topics = self._topics or self._prepare()
        self._machine.to(Phase.FENCING)
        self._at("fencing former owners")
        self._transactor.fence(self._controls.stopping)
        self._machine.to(Phase.RESTORING)
        if again:  # a topic that was made anew may be why ownership was lost
            before, topics = topics, self._prepare()
            for name in before.made_anew(topics):
                log.warning("topic was deleted and is there anew, without what it held", topic=name)
        self._topics = topics
        if self._coordinated is None:
            self._acquire_planned(topics)
        else:
            self._tasks = {}
        self._consumer.assign(
            {source: offset for task in self._tasks.values() for source, offset in task.reads_from().items()}
        )
        self._processor.own(self._tasks, topics)
        self._committer.begin_ownership(topics.infos)
        if self._coordinated is not None:
            self._begin_coordinated(self._coordinated, topics)
        self._machine.to(Phase.RUNNING)
        self.lost_s = None
        if self._coordinated is None:
            log.info("running", tasks=sorted(self._tasks) or "none: more replicas than tasks, idle")
        else:
            log.info("running, tasks as the control log says")

    def step(self) -> int:
        """Take one batch, process it, and commit when due.

        Returns:
            Kafka records taken.

        Raises:
            ProducerLostError: ownership is lost; everything must be dropped (R4).
        """
        self._processor.report()
        self._standing.look(self._tasks.values())
        if self._coordinated is not None:
            self._follow(self._coordinated)
        self._breathe()
        limit = self._rhythm.batch_limit(len(self._tasks), alert=self._alert)
        timeout_s = self._rhythm.poll_timeout_s(open_s=self._open_s, watchful=self._watchful or self._copying)
        messages = self._consumer.consume(limit, timeout_s)
        self._rhythm.read(messages, limit, self._clock.monotonic_s(), self._clock.wall_ms())
        if messages:
            self._process_timed(messages)
        self._processor.resume(self._clock.monotonic_s(), self._ends.reached)
        self._rest_full_partitions()
        if self._commits() or self._offsets_due():
            self._commit()
        if messages:
            self._rhythm.ended(self._clock.monotonic_s())
        return len(messages)

    def _rest_full_partitions(self) -> None:
        """Stop reading for tasks that have no room for more rows that wait, and go on once they have (R1)."""
        full = {source for task in self._tasks.values() if task.full for source in task.reads_from()}
        if full == self._resting:
            return
        self._consumer.resume(sorted(self._resting - full))
        self._consumer.pause(sorted(full - self._resting))
        log.info("partitions rest until rows that wait can go on", partitions=[str(at) for at in full])
        self._resting = full

    def _offsets_due(self) -> bool:
        return not self._transactor.open and self._committer.offsets_due(self._tasks.values())

    def finish(self) -> None:
        """Commit what is processed, close everything and leave."""
        running = self.phase is Phase.RUNNING
        self._machine.to(Phase.STOPPING)
        if running:
            self._commit_finally()
        self._close()
        self._machine.to(Phase.STOPPED)

    def fail(self) -> None:
        """Close everything without a commit, because going on needs an operator's decision."""
        try:
            self._close()
        finally:
            self._machine.to(Phase.FAILED)

    def drop(self, cause: str) -> None:
        """Give up all tasks and caches (R4, R11): nothing in hand survives a lost producer."""
        log.warning("ownership lost, starting over from the last commit", cause=cause)
        self.lost_s = self._clock.monotonic_s() if self.lost_s is None else self.lost_s
        self._machine.to(Phase.FENCING)
        self._metrics.losses.inc()
        self._consumer.assign({})
        for task in self._tasks.values():
            if task.migration is not None:
                task.migration.close()
        for state in self._states().values():
            state.discard()
            state.close()
        self._tasks = {}
        self._resting = set()
        if self._coordinated is not None:
            self._coordinated.drop()
        self._processor.drop()
        self._standing.drop()
        self._transactor.close()

    def _turn_until_stopped(self) -> None:
        try:
            while not self._may_leave():
                self.turn()
        except StopRequestedError as stopped:
            log.info(str(stopped))

    def _may_leave(self) -> bool:
        """Whether the replica was asked to stop and nobody waits for its tasks to be moved away first (R20)."""
        if not self._controls.stopping():
            return False
        if self._coordinated is None or self.phase is not Phase.RUNNING or self._coordinated.may_leave(self._tasks):
            return True
        self._controls.draining()
        return False

    def _acquire_planned(self, topics: Topics) -> None:
        ownership = Ownership(
            self._plan,
            self._settings,
            self._kafka,
            self._backend,
            self._clock,
            self._metrics,
            self._controls.stopping,
            self._at,
        )
        assignment = StaticAssignment(self._settings.replica_index, self._settings.replica_count)
        epochs = dict.fromkeys(assignment.partitions(topics.tasks), STATIC_EPOCH)
        self._tasks = owner_index(ownership.acquire(epochs, topics, self._controls.pause))

    def _begin_coordinated(self, coordinated: Coordinated, topics: Topics) -> None:
        self._at("reading the control log")
        facts = coordinated.begin(
            topics,
            self._controls.stopping,
            self._controls.pause,
            wait_s=self._settings.wait_s,
            fill_first=self._processor.opaque,
            unread=self._consumer.lag,
        )
        if facts:
            self._commit(facts=facts)
        # A newcomer's first row must not wait for metadata and connections, which take up to a second.
        self._consumer.warm([at for partition in range(topics.tasks) for at in topics.inputs_of(partition)])
        group = consumer_group(self._plan.app, self._plan.name)
        self._transactor.warm([*topics.infos, control_topic(self._plan.app)], group)

    def _follow(self, coordinated: Coordinated) -> None:
        """Let go of tasks that are no longer ours, and take those that are now."""
        self._at("following the control log")
        changes = coordinated.turn(self._tasks, self.phase)
        for task in changes.arrived:  # before the commit, so that one that fails drops them like all others
            self._tasks[task.id.partition] = task
            self._consumer.add(task.reads_from())
            log.info("owns", task=str(task.id), epoch=task.epoch, complete=task.migration is None)
        if changes.arrived:
            self._committer.put_off_offsets()
        for task in changes.leaving:
            task.timers = self._processor.timers(task.id.partition)
        if changes.leaving or changes.facts:
            self._commit(leaving=changes.leaving, facts=changes.facts)
            coordinated.committed(changes.facts)
        for task in changes.leaving:
            self._let_go(coordinated, task)
        if (changes.leaving or changes.arrived) and self._topics is not None:
            self._processor.own(self._tasks, self._topics)

    def _let_go(self, coordinated: Coordinated, task: OwnedTask) -> None:
        sources = task.offsets().keys()
        self._consumer.remove(list(sources))
        self._resting -= sources
        del self._tasks[task.id.partition]
        self._standing.let_go(task, sources)
        coordinated.put_away(task)
        log.info("released", task=str(task.id), epoch=task.epoch)

    def _start_over(self, cause: StateError) -> None:
        self.drop(str(cause))
        self._controls.pause(self._backoff_s)
        self._backoff_s = min(2 * self._backoff_s, LAST_BACKOFF_S)

    def _commit_finally(self) -> None:
        self._at("last commit")
        try:
            if self._transactor.open or self._committer.unshown(self._tasks.values()):
                self._commit(FINAL_END_TIMEOUT_S, show_offsets=True)
        except NO_ANSWER as error:
            log.warning("last commit failed; the next owner goes on from the one before", cause=str(error))

    def _prepare(self) -> Topics:
        self._at("waiting for broker and topics")
        admin = self._kafka.admin()
        try:
            infos = prepare_topics(
                admin,
                self._plan,
                replication=self._settings.replication,
                wait_s=self._settings.wait_s,
                stop=self._controls.stopping,
                pause=self._controls.pause,
                monotonic_s=self._clock.monotonic_s,
            )
        finally:
            admin.close()
        return Topics(self._plan, infos)

    def _process_timed(self, messages: Sequence[Message]) -> None:
        began_s = self._clock.monotonic_s()
        self._at(batch_named(messages))
        try:
            self._processor.process(messages, gather=self._rhythm.gathers(alert=self._alert))
        finally:  # also for a batch that outlasts its transaction, which otherwise would be tried again as it was
            self._rhythm.processed(len(messages), self._clock.monotonic_s() - began_s)

    def _commit(
        self,
        timeout_s: float = END_TIMEOUT_S,
        *,
        show_offsets: bool = False,
        leaving: Sequence[OwnedTask] = (),
        facts: Sequence[ControlRecord] = (),
    ) -> None:
        self._at("processing rows that were gathered")
        self._processor.flush()
        self._at("committing")
        self._committer.commit(
            self._tasks.values(), timeout_s=timeout_s, show_offsets=show_offsets, leaving=leaving, facts=facts
        )
        self._processor.committed()
        if self._coordinated is not None:
            self._coordinated.sent(self._tasks)
        self._backoff_s = FIRST_BACKOFF_S

    def _commits(self) -> bool:
        return self._rhythm.commits(
            alert=self._alert,
            open_s=self._open_s,
            dirty_entries=sum(state.dirty_entries for state in self._states().values()),
            output_bytes=self._processor.output_bytes,
            stopping=self._controls.stopping() and self._coordinated is None,
            waiting=any(task.parking is not None and task.parking.rows for task in self._tasks.values()),
        )

    @property
    def _open_s(self) -> float | None:
        """Seconds since the transaction began; None: there is none."""
        return self._transactor.open_s if self._transactor.open else None

    @property
    def _alert(self) -> bool:
        return self._coordinated is not None and self._coordinated.alert

    @property
    def _watchful(self) -> bool:
        return self._coordinated is not None and self._coordinated.watchful(self._tasks)

    @property
    def _copying(self) -> bool:
        return self._coordinated is not None and self._coordinated.copying

    def _breathe(self) -> None:
        """Let records gather; while a move is near, with an eye on the control log."""
        self._at("waiting for input")
        while (left_s := self._breath_left_s()) > 0:
            if self._coordinated is None or not self._watchful:
                self._rest(left_s)
                return
            self._rest(max(LEAST_WAIT_S, min(left_s, ALERT_S)))  # a clock need not feel less
            self._follow(self._coordinated)

    def _breath_left_s(self) -> float:
        now_s = self._clock.monotonic_s()
        waited_for = any(task.parking is not None and task.parking.ready for task in self._tasks.values())
        if waited_for and self._transactor.open:
            return 0.0  # the commit is still to come that the distance is for
        return self._rhythm.breath_left_s(now_s, waited_for=waited_for)

    def _rest(self, seconds: float) -> None:
        """Wait; a stop request ends it, unless the replica goes on working until its tasks have been moved away."""
        sleep = self._controls.pause if self._coordinated is None else self._controls.sleep
        (sleep or self._controls.pause)(seconds)

    def _states(self) -> dict[int, TaskState]:
        return {partition: task.state for partition, task in self._tasks.items() if task.state is not None}

    def _at(self, what: str | Callable[[], str]) -> None:
        self.work = Work(self._clock.monotonic_s(), what)

    def _phase_changed(self, phase: Phase) -> None:
        self._metrics.phase(phase)
        log.debug("phase", phase=str(phase))

    def _close(self) -> None:
        """Close everything, the rest also when one thing can't be closed."""
        self._processor.report(last=True)
        with ExitStack() as closing:
            for close in (self._backend.close, self._consumer.close, self._transactor.close):
                closing.callback(close)
            for state in self._states().values():
                closing.callback(state.close)
            if self._coordinated is not None:
                closing.callback(self._coordinated.close)
