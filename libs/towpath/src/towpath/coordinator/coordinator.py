"""The coordinator: one turn after the other it reads the log, decides, and carries out.

Everything it decides is a committed record before anything is asked of anyone, and it never decides before it has read
back what it wrote itself. Heartbeats are answered from any thread, also while it reads, writes or fences.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import structlog

from statemgr.clock import Clock
from statemgr.control.records import Desired, Manner
from statemgr.control.view import ControlView
from statemgr.errors import KafkaUnavailableError, ProducerLostError, RestoreStalledError, RetryableKafkaError
from statemgr.kafka.ports import Kafka
from towpath.coordinator.actions import Actions
from towpath.coordinator.answers import alerted_moves, answer
from towpath.coordinator.decide import Decision, assigns, decide
from towpath.coordinator.errors import NotLeadingError
from towpath.coordinator.facts import Facts, StageFacts
from towpath.coordinator.fencer import Fencer
from towpath.coordinator.history import History
from towpath.coordinator.known import require_holder, require_newcomer, require_replica
from towpath.coordinator.leadership import Leadership
from towpath.coordinator.limits import Limits
from towpath.coordinator.memory import Memory
from towpath.coordinator.messages import Heartbeat, HeartbeatAnswer, HolderBeat, MoveRequest, ScaleRequest
from towpath.coordinator.metrics import CoordinatorMetrics
from towpath.coordinator.platform import Platform
from towpath.coordinator.traces import MoveTraces
from towpath.coordinator.wishes import Wish, Wishes, require_move, require_stage
from towpath.tracing import NO_SPANS, Spans

log = structlog.get_logger()

TRANSIENT = (KafkaUnavailableError, RetryableKafkaError, RestoreStalledError, ProducerLostError)
"""What keeps a coordinator from leading now, and may be over later."""


def _never() -> bool:
    return False


class Coordinator:
    """Decides who owns what.

    Args:
        app: the application.
        stages: its stages, with their numbers of tasks.
        kafka: the cluster.
        clock: time.
        name: of this coordinator, for the log and as client id.
        limits: deadlines.
        metrics: figures; by default its own.
        spans: where spans of hand-overs go; by default nowhere.

    Attributes:
        ticked_s: monotonic time at which the newest turn began.
        lock: guards the memory against threads that answer heartbeats; not held while it reads, writes or fences.
        history: what the stages have done lately; touched under the lock only.
    """

    def __init__(
        self,
        app: str,
        stages: Sequence[StageFacts],
        kafka: Kafka,
        clock: Clock,
        *,
        name: str = "coordinator",
        limits: Limits | None = None,
        metrics: CoordinatorMetrics | None = None,
        spans: Spans = NO_SPANS,
    ) -> None:
        self.app = app
        self.name = name
        self.stages = {stage.name: stage for stage in stages}
        self.limits = limits or Limits()
        self.metrics = metrics or CoordinatorMetrics()
        self.ticked_s = clock.monotonic_s()
        self._clock = clock
        self.lock: AbstractContextManager[object] = threading.RLock()
        self._leadership = Leadership(kafka, app, name, clock, self.limits)
        self._memory = Memory(self.stages, self.limits, self.ticked_s)
        self.history = History(self.stages)
        self._spans = spans
        self._traces = MoveTraces(spans, clock)
        self._actions = Actions(
            self._leadership.writer,
            Fencer(kafka, app, f"{name}-fence", clock.monotonic_s),
            self._memory.moves,
            self.lock,
            clock.monotonic_s,
            self.limits,
            self.metrics,
            self._traces,
        )
        self._wishes = Wishes()
        self._assigning = False

    @property
    def leading(self) -> bool:
        """Whether it leads."""
        return self._leadership.leading

    @property
    def problem(self) -> str | None:
        """What keeps it from its work; None: nothing."""
        return self._leadership.problem

    @property
    def view(self) -> ControlView:
        """The control log as read so far; replaced as a whole, never changed."""
        return self._leadership.view

    @property
    def platform(self) -> Platform:
        """What the platform that runs the replicas said last."""
        return self._memory.platform

    @platform.setter
    def platform(self, said: Platform) -> None:
        with self.lock:
            self._memory.platform = said

    @property
    def busy(self) -> bool:
        """Whether something is under way, so that turns should follow each other quickly."""
        if not self.leading:
            return False
        return self._wishes.waiting or not self._leadership.is_read_back or any(True for _ in self._memory.moves)

    def begin(self, stop: Callable[[], bool] = _never) -> None:
        """Become the leader if that is possible now; else the turns try again.

        Raises:
            CodecError: the log holds what can't be understood (R19).
            StopRequestedError: ``stop`` said so.
        """
        try:
            self.start(stop)
        except TRANSIENT as error:
            self._stand_down(str(error))

    def start(self, stop: Callable[[], bool] = _never) -> None:
        """Become the leader.

        Raises:
            RetryableKafkaError, KafkaUnavailableError, RestoreStalledError, ProducerLostError: not possible now.
            CodecError: the log holds what can't be understood (R19).
            StopRequestedError: ``stop`` said so.
        """
        reader = self._leadership.take_over(stop)
        with self.lock:
            self._leadership.lead(reader)
            self._memory.forget_silence(self._clock.monotonic_s())

    def tick(self) -> None:
        """One turn; waits for nothing but its own reads, commits and fences. The first turn begins to lead, if need be.

        Raises:
            CodecError, TopicMissingError: the control log can't be followed any more: stop (R19).
        """
        with self.lock:
            now_s = self._clock.monotonic_s()
            if now_s - self.ticked_s > self.limits.pause_s:
                self._memory.pass_over(now_s - self.ticked_s, now_s)
            self.ticked_s = now_s
        read = self._leadership.read()
        with self.lock:
            decisions = self._decide(now_s) if read else []
            self._assigning = any(assigns(decision) for decision in decisions)
        try:
            if not self.leading:
                self._lead_again(now_s)
            elif self._leadership.superseded:  # it would still fence replicas, which needs no right to write the log
                self._stand_down(f"{self.view.leader} has taken over (term {self.view.term})")
            elif self._wishes.waiting:
                self._wishes.log(self._leadership.writer)
            else:
                self._actions.carry_out(decisions, self._leadership.term)
        except ProducerLostError as error:
            self._stand_down(str(error))

    def close(self) -> None:
        """Free everything; replicas go on by the log."""
        with self.lock:
            self._wishes.give_up("the coordinator ends")
        self._leadership.close()
        self._spans.close()

    def heartbeat(self, stage: str, replica: str, beat: Heartbeat) -> HeartbeatAnswer:
        """Take a replica's heartbeat; the answer is hints only.

        Raises:
            RefusedError: it is a new one, and there are too many.
        """
        with self.lock:
            now_s = self._clock.monotonic_s()
            if stage in self.stages:
                require_newcomer(self._memory.fleet, stage, replica)
                self._memory.fleet.hear(stage, replica, beat, now_s)
                self.history.hear(stage, replica, beat)
            if stage not in self.stages or not self.leading:
                return HeartbeatAnswer(term=self.view.term, known=False)
            facts = self.facts()
            for move in alerted_moves(facts, stage, replica):
                move.told = move.told or (move.source == replica and move.alerted_s is not None)
            # Who may leave is known by a log that names every owner already, not by one that is just being written.
            settled = self._leadership.is_read_back and not self._assigning
            return answer(facts, stage, replica, settled=settled)

    def holder(self, name: str, beat: HolderBeat) -> None:
        """Take a state manager's heartbeat.

        Raises:
            UnknownNameError: no replica of that name is known.
        """
        with self.lock:
            require_holder(self.facts(), name)
            self._memory.fleet.hear_holder(name, beat, self._clock.monotonic_s())

    def died(self, stage: str, replica: str) -> None:
        """Take a supervisor's word that a replica's process has ended.

        Raises:
            UnknownNameError: no such replica is known.
        """
        with self.lock:
            require_replica(self.facts(), stage, replica)
            self._memory.fleet.died(stage, replica, self._clock.monotonic_s())
        log.warning("reported dead", stage=stage, replica=replica)

    def scale(self, request: ScaleRequest) -> Wish:
        """Take a wish for another number of replicas, or another strategy; the next turns log it and read it back.

        Once it is in force it ends what :meth:`move` was asked for in that stage before.

        Raises:
            RefusedError: there is no such stage.
            NotLeadingError: this coordinator does not lead, or too many requests wait.
        """
        require_stage(self.app, self.stages, request.stage)
        with self.lock:
            self._require_leading()
            stage = request.stage
            before = self._wishes.newest(stage) or self.view.desired.get(stage)
            manner = request.manner or (before.manner if before is not None else Manner())
            as_before = "replicas" not in request.model_fields_set
            replicas = before.replicas if as_before and before is not None else request.replicas
            wanted = Desired(stage, replicas, manner, self._leadership.term)
            return self._wishes.add(wanted, self._memory.pinned(stage))

    def forget_asked(self, stage: str, replicas: int) -> None:
        """So many replicas are not asked for any more: from now on the number is the platform's.

        Raises:
            NotLeadingError: this coordinator does not lead, or too many requests wait.
        """
        with self.lock:
            self._require_leading()
            newest = self._wishes.newest(stage) or self.view.desired.get(stage)
            if newest is not None and newest.replicas == replicas:
                self._wishes.add(Desired(stage, None, newest.manner, self._leadership.term), ())

    def move(self, request: MoveRequest) -> bool:
        """Take a wish for a task's owner.

        It holds until that replica leaves, the stage is scaled, or the coordinator restarts: it is not in the log.

        Returns:
            Whether the task has to move for it.

        Raises:
            RefusedError: there is no such stage, task, or replica that is to own tasks.
            NotLeadingError: this coordinator does not lead.
        """
        stage = require_stage(self.app, self.stages, request.stage)
        with self.lock:
            self._require_leading()
            task = require_move(self.facts(), stage, request)
            self._memory.pins[task] = request.replica
            self._wishes.outlive(task)
            return self.view.of(task).owner != request.replica

    def facts(self) -> Facts:
        """What is known now."""
        return self._memory.facts(self.view, self._leadership.term, self._clock.monotonic_s())

    @contextmanager
    def look(self) -> Iterator[Facts]:
        """The same, and nothing changes while the context lasts."""
        with self.lock:
            yield self.facts()

    def _decide(self, now_s: float) -> list[Decision]:
        self._leadership.fold()
        ready = self.leading and self._leadership.is_read_back
        if ready:
            self._memory.unpin(self._wishes.confirm())
        facts = self._memory.observe(self.view, self._leadership.term, now_s)
        self._look_back(facts)
        return decide(facts) if ready else []

    def _look_back(self, facts: Facts) -> None:
        """For people: what has ended, and what the stages did."""
        for move in self._memory.moves.take_ended():
            self.metrics.moved(move)
            self._traces.ended(move)
        self.history.look(facts, self._clock.wall_ms())

    def _stand_down(self, cause: str) -> None:
        with self.lock:
            self._leadership.stand_down(cause)
            self._memory.moves.forget_prepared(self._clock.monotonic_s())
            self._wishes.give_up(f"the coordinator does not lead any more: {cause}")
        self._leadership.writer.close()

    def _lead_again(self, now_s: float) -> None:
        fleet = self._memory.fleet
        talked_to = any(now_s - heard.at_s < self.limits.silence_s for heard in fleet.replicas.values())
        if self._leadership.should_lead(now_s, talked_to=talked_to):
            self.begin()

    def _require_leading(self) -> None:
        if not self.leading:
            raise NotLeadingError(
                f"coordinator {self.name} {self.problem or 'does not lead'}; the newest is "
                f"{self.view.leader or 'unknown'} (term {self.view.term})"
            )
