"""Tasks on their way to this replica: from assignment to the first row.

::

    assigned ──▶ waiting ──▶ asking ──▶ opening ──▶ filling ──▶ arrived
                  │ ▲ every               │  the store   only where all state must be
                  │ │ earlier             │  is made     there before the first row
                  │ │ owner               │  ready
                  │ │ has ended           │
                  │ └─────────────────────┘ a holder did not answer, or Kafka did not: again, after a pause
                  └──▶ passed on: assigned to another meanwhile, and never started here

    hint "prepare" ──▶ prepared: store opened or copied, state manager warm; used if the assignment comes

A task of a restart also waits for the others, see :mod:`towpath.stage.restarting`.
Pure of waiting: what takes time is a :class:`~statemgr.migration.ports.Pending` that is looked at once a turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
import structlog

from statemgr.clock import Clock
from statemgr.control.records import COPIES_FIRST, Done, Released, Strategy
from statemgr.control.view import ControlView
from statemgr.errors import (
    HolderUnavailableError,
    KafkaRefusedError,
    KafkaUnavailableError,
    RestoreStalledError,
    RetryableKafkaError,
)
from statemgr.migration.opening import NoAnswer
from statemgr.migration.ports import Address, Pending, StateClient
from statemgr.types import TaskId
from towpath.coordinator.messages import Prepare, TaskReport
from towpath.stage.absent import AbsentTimers
from towpath.stage.arrival import Arrival, ArrivalPhase
from towpath.stage.hand_over import HandOvers
from towpath.stage.opener import Opener
from towpath.stage.opening import ASK_AGAIN_S, ASK_TIMEOUT_S, SILENT_S, said_by
from towpath.stage.ownership import Topics
from towpath.stage.preparations import Preparations
from towpath.stage.restarting import PATIENCE_S, all_are_restored, all_have_let_go
from towpath.stage.tasks import OwnedTask

log = structlog.get_logger()

COPY_BUDGET_S = 0.002
"""Time a turn may spend on copies for moves to come: half of what it spends on tasks that run already."""

FILLED_FIRST = COPIES_FIRST | {Strategy.BLOCK}
"""Strategies by which a task has all of its state before its first row."""

AGAIN_S = 1.0
"""Before a task is opened again that Kafka could not give: the opening itself was patient already."""

FILL_BUDGET_S = 0.05
"""Time a turn may spend on a task that does not run before it is filled; other tasks still get their turns."""


class Arrivals:
    """All arriving tasks of one replica.

    Args:
        replica: this replica's name.
        opener: makes stores ready.
        client: asks state managers.
        preparations: what was done before the assignment.
        clock: time.
        hand_overs: looks at what arrives.
    """

    def __init__(
        self,
        replica: str,
        opener: Opener,
        client: StateClient,
        preparations: Preparations,
        clock: Clock,
        hand_overs: HandOvers,
    ) -> None:
        self._hand_overs = hand_overs
        self._preparations = preparations
        self._replica = replica
        self._opener = opener
        self._client = client
        self._clock = clock
        self._fill_first = False
        self._begun_at = 0
        self._arriving: dict[TaskId, Arrival] = {}

    def begin(self, topics: Topics, view: ControlView, *, fill_first: bool) -> None:
        """Start anew after a fence.

        Args:
            topics: the stage's topics.
            view: the log, read to its end after the fence.
            fill_first: whether every task needs all of its state before its first row (its operators can't say which
                keys a row needs).
        """
        self._fill_first = fill_first
        self._begun_at = view.next_offset
        self._opener.begin(topics)

    @property
    def waiting(self) -> bool:
        """Whether a task is on its way."""
        return bool(self._arriving)

    @property
    def copying(self) -> bool:
        """Whether state is copied for a task that may come."""
        return self._preparations.copying

    def expect(self, view: ControlView, held: Mapping[TaskId, int]) -> list[Released]:
        """Take up what the log assigns to this replica and it does not run; drop what was assigned away.

        Returns:
            Releases by which tasks are passed on that never ran here.
        """
        passed = [release for task in list(self._arriving) if (release := self._drop_if_superseded(task, view))]
        for task in view.owned_by(self._opener.stage, self._replica):
            assigned = view.of(task).assigned
            if assigned is not None and held.get(task) != assigned.epoch and task not in self._arriving:
                fresh = view.of(task).assigned_at >= self._begun_at
                copied = self._preparations.has_copy(task, assigned.epoch)
                now_s = self._clock.monotonic_s()
                self._arriving[task] = Arrival(assigned, ArrivalPhase.WAITING, now_s, fresh, copied)
                freed = self._preparations.take(task, assigned.epoch)
                if freed is not None:
                    self._opener.hold(task, freed)
        return passed

    def turn(self, view: ControlView) -> list[OwnedTask]:
        """Move every arriving task on as far as it goes; gives those that may run."""
        self._opener.turn()
        self._preparations.turn(COPY_BUDGET_S)
        moved = {task: self._move_on(task, arrival, view) for task, arrival in list(self._arriving.items())}
        arrived = {task: ready for task, ready in moved.items() if ready is not None}
        for task, owned in arrived.items():  # only now: where one fails, all of them are dropped
            arrival = self._arriving.pop(task)
            arrival.leave(self._clock.monotonic_s())
            self._hand_overs.arrived(arrival, owned)
        return list(arrived.values())

    def restored(self) -> list[Done]:
        """What the log is to be told, once, of tasks that wait for the others of a restart."""
        restored = [each for each in self._arriving.values() if each.restarts and each.task and not each.said_done]
        for arrival in restored:
            arrival.said_done = True
        return [Done(*each.assigned.task, each.assigned.epoch, self._replica) for each in restored]

    def prepare(self, hints: Sequence[Prepare], view: ControlView) -> None:
        """Heed hints about tasks that will probably come; those that the log has overtaken are void."""
        self._preparations.heed(
            [hint for hint in hints if view.of(TaskId(self._opener.stage, hint.partition)).epoch < hint.epoch]
        )

    def ready(self) -> list[tuple[TaskId, int]]:
        """Tasks that may be assigned to this replica now, with their epochs."""
        return self._preparations.ready()

    def reports(self) -> list[TaskReport]:
        """What the coordinator is told of them."""
        return [
            TaskReport(
                partition=task.partition,
                epoch=arrival.assigned.epoch,
                state=str(arrival.phase),
                complete=False,
                migration=self._progress(arrival),
            )
            for task, arrival in self._arriving.items()
        ]

    def copies(self) -> list[TaskReport]:
        """What the coordinator is told of copies that are being made."""
        return self._preparations.reports()

    def copied(self) -> Iterator[tuple[TaskId, Prepare, dict[str, Any]]]:
        """Copies that are being made, by what hint, and what they tell of themselves."""
        return self._preparations.copied()

    def put_away(self, task: OwnedTask) -> None:
        """Close the store of a task that was released."""
        self._opener.put_away(task)

    def drop(self) -> None:
        """Forget all of them, and close what was opened."""
        for arrival in self._arriving.values():
            self._abandon(arrival)
        self._arriving = {}
        self._opener.drop()
        self._preparations.drop()

    def _progress(self, arrival: Arrival) -> dict[str, Any] | None:
        if arrival.task is not None:
            return arrival.task.migration.report() if arrival.task.migration is not None else None
        return self._opener.read(arrival.assigned.task, arrival.assigned.epoch) or None

    def _move_on(self, task: TaskId, arrival: Arrival, view: ControlView) -> OwnedTask | None:
        if arrival.phase is ArrivalPhase.WAITING and self._may_begin(task, arrival, view):
            self._begin(task, arrival, view)
        if arrival.phase is ArrivalPhase.ASKING and all(pending.done() for pending in arrival.asked.values()):
            self._open(arrival, view)
        if arrival.phase is ArrivalPhase.OPENING and arrival.opening is not None and arrival.opening.done():
            self._opened(task, arrival, arrival.opening, view)
        if arrival.phase is ArrivalPhase.FILLING and arrival.task is not None and self._filled(arrival, view):
            return arrival.task
        return None

    def _opened(self, task: TaskId, arrival: Arrival, opening: Pending[OwnedTask], view: ControlView) -> None:
        """Take the task up, or begin again with it alone: what it lacks may be there later, and others go on."""
        try:
            arrival.task = opening.result()
        except KafkaRefusedError:
            raise
        except HolderUnavailableError as error:
            self._begin_again(task, arrival, ASK_AGAIN_S, error)
        except (RestoreStalledError, RetryableKafkaError, KafkaUnavailableError) as error:
            self._begin_again(task, arrival, AGAIN_S, error)
        else:
            released = self._released(arrival, view)
            if released is not None and released.epoch == arrival.assigned.epoch - 1:
                arrival.task.absent = AbsentTimers(released.timers)
            self._to(arrival, ArrivalPhase.FILLING)

    def _begin_again(self, task: TaskId, arrival: Arrival, pause_s: float, cause: Exception) -> None:
        log.warning("a task can't be opened yet, trying again", task=str(task), again_s=pause_s, cause=str(cause))
        arrival.opening, arrival.asked = None, {}
        arrival.not_before_s = self._clock.monotonic_s() + pause_s
        self._to(arrival, ArrivalPhase.WAITING)

    def _may_begin(self, task: TaskId, arrival: Arrival, view: ControlView) -> bool:
        if self._clock.monotonic_s() < arrival.not_before_s or not view.may_start(task, self._replica):
            return False
        return not arrival.restarts or all_have_let_go(view, task.stage)

    def _begin(self, task: TaskId, arrival: Arrival, view: ControlView) -> None:
        """Every earlier owner has ended: ask the holders, unless the log says all there is to know."""
        assigned, released = arrival.assigned, self._released(arrival, view)
        if arrival.copied or self._opener.needs_no_description(assigned, released):
            self._open(arrival, view)
            return
        if arrival.asked_s is None:
            arrival.asked_s = self._clock.monotonic_s()
        arrival.asked = {
            layer: self._client.describe(Address(task, layer, assigned.epoch), -1, ASK_TIMEOUT_S)
            for layer in assigned.layers
        }
        self._to(arrival, ArrivalPhase.ASKING)
        if not arrival.asked:
            self._open(arrival, view)

    def _open(self, arrival: Arrival, view: ControlView) -> None:
        said = {layer: said_by(pending) for layer, pending in arrival.asked.items()}
        if arrival.asked_s is not None and self._clock.monotonic_s() - arrival.asked_s >= SILENT_S:
            said = {layer: NoAnswer.LOST if each is NoAnswer.SILENT else each for layer, each in said.items()}
        arrival.opening = self._opener.open(arrival.assigned, self._released(arrival, view), said)
        self._to(arrival, ArrivalPhase.OPENING)

    def _released(self, arrival: Arrival, view: ControlView) -> Released | None:
        """The newest release, without its cut if this replica may have run under its assignment before.

        Whoever was fenced and starts again has perhaps written behind that cut, and its store may be lost.
        """
        released = view.of(arrival.assigned.task).released
        return released if released is None or arrival.fresh else _without_cut(released)

    def _filled(self, arrival: Arrival, view: ControlView) -> bool:
        """Whether the first row may be processed."""
        task = arrival.task
        if arrival.restarts and not all_are_restored(view, self._opener.stage):
            return self._clock.monotonic_s() - arrival.since_s >= PATIENCE_S
        if task is None or task.migration is None:
            return True
        if not (self._fill_first or arrival.assigned.manner.strategy in FILLED_FIRST):
            return True
        migration = task.migration
        migration.hurry()
        migration.advance(self._clock.monotonic_s(), FILL_BUDGET_S)
        if task.settle():
            arrival.came = migration.report()
        return task.migration is None

    def _drop_if_superseded(self, task: TaskId, view: ControlView) -> Released | None:
        """Let go of a task that was assigned anew; pass on what is known once nobody before can be at work."""
        arrival, newest = self._arriving[task], view.of(task)
        epoch = arrival.assigned.epoch
        if newest.epoch == epoch or any(tenure.epoch < epoch for tenure in view.unended(task)):
            return None
        self._abandon(arrival)
        del self._arriving[task]
        before = newest.released
        if before is not None and before.epoch >= epoch:
            return None
        ended = Released(
            task.stage, task.partition, epoch, self._replica, started=not arrival.fresh, offset=-1, progress=None
        )
        if arrival.fresh and before is not None and before.epoch == epoch - 1:
            return msgspec.structs.replace(ended, offset=before.offset, progress=before.progress, timers=before.timers)
        return ended

    def _abandon(self, arrival: Arrival) -> None:
        self._opener.abandon(arrival.assigned, arrival.opening, arrival.task)

    def _to(self, arrival: Arrival, phase: ArrivalPhase) -> None:
        arrival.to(phase, self._clock.monotonic_s())


def _without_cut(released: Released) -> Released:
    return msgspec.structs.replace(released, offset=-1, progress=None, timers=None)
