"""What a replica owns when there is a coordinator: exactly what the control log says (R3).

::

    control log ──▶ view ──▶ leaving: owned tasks that are assigned to another, or under a newer epoch
                        └──▶ arrivals: tasks assigned to this replica that it does not run yet
    coordinator ◀─ heartbeat ─▶ hints: prepare, be alert, hurry, you may go

The replica's loop calls :meth:`Coordinated.turn`; nothing here waits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import structlog

from statemgr.clock import Clock
from statemgr.control.log import ControlReader
from statemgr.control.records import ControlRecord, Done, Released, Tenure
from statemgr.control.view import ControlView
from statemgr.errors import StopRequestedError, TopicMissingError
from statemgr.types import TaskId, TopicPartition
from towpath.coordinator.messages import Heartbeat, TaskEpoch, TaskReport
from towpath.stage.arrivals import Arrivals
from towpath.stage.hand_over import HandOvers
from towpath.stage.lags import Unread, lag_of, total_lag
from towpath.stage.link import INTERVAL_S, Link
from towpath.stage.metrics import StageMetrics
from towpath.stage.ownership import Topics
from towpath.stage.phases import Phase
from towpath.stage.tasks import OwnedTask

log = structlog.get_logger()

INSTALL_BUDGET_S = 0.004
"""Longest time that one turn spends on installing background state: well below the shortest time between batches."""


LOOK_S = 0.25
"""Between two looks for a control log that is not there yet."""

UNHEARD_S = 3.0
"""A leaving replica waits no longer for a coordinator that does not answer: twelve heartbeats."""


@dataclass(frozen=True)
class Changes:
    """What the replica has to do.

    Attributes:
        leaving: owned tasks to be released now.
        arrived: tasks that may run now.
        facts: records for the control log, to be committed soon.
    """

    leaving: Sequence[OwnedTask] = ()
    arrived: Sequence[OwnedTask] = ()
    facts: Sequence[ControlRecord] = ()


@dataclass(frozen=True)
class Identity:
    """Who a replica is: its stage, its name, and this life of its process."""

    stage: str
    replica: str
    incarnation: str


def _unknown(_: TopicPartition) -> int | None:
    return None


class Coordinated:
    """Follows the control log for one replica."""

    def __init__(
        self,
        identity: Identity,
        control: ControlReader,
        arrivals: Arrivals,
        link: Link,
        clock: Clock,
        *,
        hand_overs: HandOvers,
        metrics: StageMetrics,
        holders: dict[str, str],
        state_address: Callable[[], str],
        drain_s: float,
        on_close: Callable[[], None],
    ) -> None:
        """Make it; :meth:`begin` comes next.

        Args:
            identity: who this replica is.
            control: reads the control log.
            arrivals: tasks on their way here.
            link: to the coordinator.
            clock: time.
            hand_overs: looks at what comes and goes.
            metrics: of the replica.
            holders: name → address of its state manager; kept up to date here.
            state_address: address of this replica's own state manager; empty: none.
            drain_s: longest time that it waits for its tasks to be moved away when it is asked to stop.
            on_close: ends what runs in the background, and frees what the link sends by; called after its last word.
        """
        self._me = identity
        self._hand_overs = hand_overs
        self._metrics = metrics
        self._holders = holders
        self._state_address = state_address
        self._drain_s = drain_s
        self._on_close = on_close
        self._leave_at_s: float | None = None
        self.http_address = ""
        self._control = control
        self._arrivals = arrivals
        self._link = link
        self._clock = clock
        self._said_s = self._heard_s = float("-inf")
        self._alert_until_s = float("-inf")
        self._done: dict[TaskId, int] = {}
        self._unread: Unread = _unknown
        self._drained = False

    @property
    def view(self) -> ControlView:
        """What the log says so far."""
        return self._control.view

    @property
    def alert(self) -> bool:
        """Whether a move is near: a release may be asked for, so batches are to be short (R16)."""
        return self._clock.monotonic_s() < self._alert_until_s

    def watchful(self, owned: Mapping[int, OwnedTask]) -> bool:
        """Whether the loop is to look at the log and at what is on its way often."""
        return self.alert or self._arrivals.waiting or any(task.migration is not None for task in owned.values())

    @property
    def copying(self) -> bool:
        """Whether copies are made for moves to come: an idle replica then comes by often, a busy one does anyway."""
        return self._arrivals.copying

    def begin(
        self,
        topics: Topics,
        stopping: Callable[[], bool],
        pause: Callable[[float], object],
        *,
        wait_s: float,
        fill_first: bool,
        unread: Unread = _unknown,
    ) -> list[ControlRecord]:
        """Read the log to its end, after the fence; gives what must be said of this replica's former lives.

        Their producers are fenced, so they have ended; where exactly is in the changelog.

        Args:
            topics: the stage's topics.
            stopping: whether the process was asked to stop.
            pause: waits that many seconds.
            wait_s: longest wait for the log to be made.
            fill_first: whether tasks need all of their state before their first row.
            unread: how much of an input partition is still to be read, as far as is known without asking anybody.

        Raises:
            TopicMissingError: no coordinator has made the log in time.
        """
        self._read_log(stopping, pause, wait_s)
        self._arrivals.begin(topics, self._control.view, fill_first=fill_first)
        self._done = {}
        self._unread = unread
        return [self._ended(task, tenure.epoch) for task, tenure in self._former_tenures()]

    def turn(self, owned: Mapping[int, OwnedTask], phase: Phase) -> Changes:
        """Look at the log, at the coordinator's hints, and at what is on its way."""
        self._control.poll()
        self._heed(owned)
        view = self._control.view
        leaving = [task for task in owned.values() if view.of(task.id).assigned_elsewhere(self._me.replica, task.epoch)]
        for task in leaving:
            self._hand_overs.leaving(task, view.of(task.id).assigned)
        held = {task.id: task.epoch for task in owned.values() if task not in leaving}
        passed = self._arrivals.expect(view, held)
        facts: list[ControlRecord] = [*passed, *self._advance(held, owned)]
        arrived = self._arrivals.turn(view)
        facts += self._arrivals.restored()
        self._hand_overs.look(owned, self._arrivals.copied())
        self._say(owned, phase, at_once=bool(arrived or leaving or facts))
        return Changes(leaving, arrived, facts)

    def committed(self, facts: Sequence[ControlRecord]) -> None:
        """These records are in the log now, though perhaps not read yet."""
        for fact in facts:
            if isinstance(fact, Done):
                self._done[fact.task] = fact.epoch
                self._hand_overs.done(fact.task)

    def sent(self, owned: Mapping[int, OwnedTask]) -> None:
        """Rows that were sent are committed."""
        self._hand_overs.sent(owned)

    def may_leave(self, owned: Mapping[int, OwnedTask]) -> bool:
        """Ask for this replica's tasks to be moved away, and tell whether it may end (R20)."""
        if self._leave_at_s is None:
            self._leave_at_s = self._clock.monotonic_s() + self._drain_s
            log.info("asked to stop, waiting for tasks to be moved away", tasks=sorted(owned), at_most_s=self._drain_s)
        if self._drained:
            return True
        now_s = self._clock.monotonic_s()
        if now_s < self._leave_at_s and now_s - max(self._heard_s, self._leave_at_s - self._drain_s) < UNHEARD_S:
            return False
        log.warning("leaving with tasks that nobody has taken", tasks=sorted(owned))
        return True

    def put_away(self, task: OwnedTask) -> None:
        """Close the store of a task that was released, beside the loop."""
        self._arrivals.put_away(task)
        self._hand_overs.released(task.id)

    def drop(self) -> None:
        """Forget what was on its way: ownership was lost (R4)."""
        self._arrivals.drop()
        self._hand_overs.drop()

    def close(self) -> None:
        """Say that this replica has gone, and free everything."""
        self._say({}, Phase.STOPPED, at_once=True)
        self._arrivals.drop()
        self._link.close()
        self._hand_overs.close()
        self._on_close()
        self._control.close()

    def _read_log(self, stopping: Callable[[], bool], pause: Callable[[float], object], wait_s: float) -> None:
        deadline_s = self._clock.monotonic_s() + wait_s
        while True:
            try:
                self._control.read_to_end(stop=stopping)
            except TopicMissingError as error:
                if stopping():
                    raise StopRequestedError("asked to stop while waiting for the control log") from error
                if self._clock.monotonic_s() >= deadline_s:
                    raise TopicMissingError(
                        f"{error}; the coordinator makes it: start `towpath coordinator`"
                    ) from error
                pause(LOOK_S)
            else:
                return

    def _former_tenures(self) -> Iterator[tuple[TaskId, Tenure]]:
        view = self._control.view
        for task in list(view.tasks):
            if task.stage == self._me.stage:
                yield from ((task, tenure) for tenure in view.unended(task) if tenure.owner == self._me.replica)

    def _ended(self, task: TaskId, epoch: int) -> Released:
        """A release that names no cut: whoever follows reads it from the changelog."""
        return Released(task.stage, task.partition, epoch, self._me.replica, started=True, offset=-1, progress=None)

    def _advance(self, held: Mapping[TaskId, int], owned: Mapping[int, OwnedTask]) -> Iterator[ControlRecord]:
        """Move the state of owned tasks on; tasks that have all of it are done."""
        now_s = self._clock.monotonic_s()
        for task, epoch in held.items():
            owner = owned[task.partition]
            migration = owner.migration
            if migration is not None:
                migration.advance(now_s, INSTALL_BUDGET_S)
            if migration is None or owner.settle():
                self._hand_overs.complete(task, {} if migration is None else migration.report())
                view = self._control.view.of(task)
                known = view.done.epoch if view.done is not None else 0
                if max(known, self._done.get(task, 0)) < epoch:
                    yield Done(task.stage, task.partition, epoch, self._me.replica)

    def _heed(self, owned: Mapping[int, OwnedTask]) -> None:
        answer = self._link.heard()
        if answer is None or not answer.known or answer.term < self._control.view.term:
            return
        self._heard_s = self._clock.monotonic_s()
        self._drained = answer.drained and self._leave_at_s is not None
        self._holders.update(answer.holders)
        if answer.alert_s > 0:
            self._alert_until_s = self._clock.monotonic_s() + answer.alert_s
        self._arrivals.prepare(answer.prepare, self._control.view)
        for partition in answer.hurry:
            task = owned.get(partition)
            if task is not None and task.migration is not None:
                task.migration.hurry()

    def _say(self, owned: Mapping[int, OwnedTask], phase: Phase, *, at_once: bool) -> None:
        now_s = self._clock.monotonic_s()
        if not at_once and now_s - self._said_s < INTERVAL_S / 2:
            return
        self._said_s = now_s
        beat = Heartbeat(
            incarnation=self._me.incarnation,
            state_address=self._state_address(),
            http_address=self.http_address,
            phase=str(phase),
            draining=self._leave_at_s is not None,
            control_offset=self._control.view.next_offset,
            tasks=[*map(self._report, owned.values()), *self._arrivals.reports()],
            ready=[TaskEpoch(partition=task.partition, epoch=epoch) for task, epoch in self._arrivals.ready()],
            copies=self._arrivals.copies(),
            figures=self._metrics.totals(),
        )
        self._link.say(beat, at_once=at_once)

    def _report(self, task: OwnedTask) -> TaskReport:
        """What the coordinator is told of a task that runs."""
        lag = total_lag(lag_of(task, source, self._unread) for source in task.reads_from())
        return TaskReport(
            partition=task.id.partition,
            epoch=task.epoch,
            state="running",
            complete=task.migration is None,
            migration=None if task.migration is None else task.migration.report(),
            lag=lag.read if lag is not None else None,
            committed_lag=lag.committed if lag is not None else None,
            moved=self._hand_overs.summary(task.id, task.epoch),
        )
