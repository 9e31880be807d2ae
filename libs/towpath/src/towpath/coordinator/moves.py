"""The life of a move, planned or forced, as a state machine.

::

    prepare ──▶ committed ──▶ released ──▶ running ──▶ done
       │            │             │           │
       └─▶ dropped  └─────────────┴───────────┴──▶ superseded: assigned anew meanwhile

    forced (its owner is gone): committed = the intent is logged; released = the owner is fenced

*prepare* lives in the coordinator's memory alone: a hint, of which nothing is left after its restart. From *committed*
on the steps are read off the control log and the new owner's heartbeats, so a restarted coordinator finds them again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from statemgr.control.records import Assigned, Strategy
from statemgr.control.view import ControlView
from statemgr.types import TaskId
from towpath.coordinator.fleet import Fleet
from towpath.coordinator.messages import TaskReport
from towpath.coordinator.progress import mark_of, said_by
from towpath.errors import IllegalTransitionError

FOUND = "found in the log"
"""Why a move is under way that this coordinator has not decided: its times before that are not known."""

LATE_S = 10.0
"""After its end a move still takes what its target says of it: a word that is under way when the log says "done"."""

KEPT = 200
"""Ended moves that are still shown: those of a rescale of a hundred tasks, and of the one before."""


class Step(StrEnum):
    """Where a move stands."""

    PREPARE = "prepare"
    COMMITTED = "committed"
    RELEASED = "released"
    RUNNING = "running"
    DONE = "done"
    DROPPED = "dropped"
    SUPERSEDED = "superseded"

    @property
    def ended(self) -> bool:
        """Whether nothing more will happen."""
        return self in {Step.DONE, Step.DROPPED, Step.SUPERSEDED}


_LEGAL: dict[Step, frozenset[Step]] = {
    Step.PREPARE: frozenset({Step.COMMITTED, Step.DROPPED}),
    Step.COMMITTED: frozenset({Step.RELEASED, Step.SUPERSEDED}),
    Step.RELEASED: frozenset({Step.RUNNING, Step.SUPERSEDED}),
    Step.RUNNING: frozenset({Step.DONE, Step.SUPERSEDED}),
    Step.DONE: frozenset(),
    Step.DROPPED: frozenset(),
    Step.SUPERSEDED: frozenset(),
}


_PHASES = (
    ("prepare", Step.PREPARE, Step.COMMITTED),
    ("release", Step.COMMITTED, Step.RELEASED),
    ("take_over", Step.RELEASED, Step.RUNNING),
    ("background", Step.RUNNING, Step.DONE),
)


@dataclass
class Move:
    """One move of one task.

    Attributes:
        task: what moves.
        source: the former owner.
        target: the new one.
        epoch: the new owner's.
        why: scale, drain, failure, …
        strategy: how the state travels.
        step: where it stands.
        times: step → monotonic time at which it was reached.
        alerted_s: since when source and target are told to watch the log; None: not yet.
        told: the source has been told.
        mark: where its state stood last; None: nothing was said of it.
        moved_s: when that was heard first.
        progress: what was said of its state last; None: nothing.
        trace: trace context of the hand-over; empty: it is not traced.
    """

    task: TaskId
    source: str
    target: str
    epoch: int
    why: str
    strategy: Strategy
    step: Step
    times: dict[Step, float] = field(default_factory=dict)
    alerted_s: float | None = None
    told: bool = False
    mark: tuple[Any, ...] | None = None
    moved_s: float = float("-inf")
    progress: Mapping[str, Any] | None = None
    trace: str = ""

    def to(self, step: Step, now_s: float) -> None:
        """Go to a step.

        Raises:
            IllegalTransitionError: the picture has no such arrow.
        """
        if step not in _LEGAL[self.step]:
            raise IllegalTransitionError(f"the move of {self.task} can't go from {self.step} to {step}")
        self.step = step
        self.times[step] = now_s

    def note(self, report: TaskReport | None, now_s: float) -> None:
        """Take what the target says of it; what it repeats is no progress, be it ever so alive."""
        if report is None:
            return
        self.progress = report.moved or report.migration or self.progress
        if mark_of(report) != self.mark:
            self.mark, self.moved_s = mark_of(report), now_s

    def report(self, fleet: Fleet) -> TaskReport | None:
        """What the target said last of the task, or before it is logged of its copy."""
        return said_by(fleet, self.target, self.task, self.epoch, copy=self.step is Step.PREPARE)

    @property
    def phases(self) -> dict[str, float]:
        """Phase that is over → its seconds; empty where its beginning was not seen."""
        if self.why == FOUND:
            return {}
        return {
            name: self.times[after] - self.times[before]
            for name, before, after in _PHASES
            if before in self.times and after in self.times
        }

    @property
    def still_since_s(self) -> float:
        """Since when neither a step nor progress was heard of."""
        return max(self.since_s, self.moved_s)

    @property
    def since_s(self) -> float:
        """When the present step was reached."""
        return self.times[self.step]

    @property
    def begun_s(self) -> float:
        """When it was first heard of."""
        return min(self.times.values())


class Moves:
    """All moves: the newest of each task, and some that have ended."""

    def __init__(self) -> None:
        self._live: dict[TaskId, Move] = {}
        self._why: dict[tuple[TaskId, int], str] = {}
        self._fresh: list[Move] = []
        self.ended: deque[Move] = deque(maxlen=KEPT)

    def __iter__(self) -> Iterator[Move]:
        return iter(self._live.values())

    def get(self, task: TaskId) -> Move | None:
        """The task's move that is under way."""
        return self._live.get(task)

    def take_ended(self) -> list[Move]:
        """Moves that have ended since the last call."""
        fresh, self._fresh = self._fresh, []
        return fresh

    @property
    def prepared(self) -> Mapping[TaskId, Move]:
        """Moves that nothing is logged of yet."""
        return {task: move for task, move in self._live.items() if move.step is Step.PREPARE}

    def plan(self, move: Move, now_s: float) -> None:
        """Begin with a move in its first step; one of an earlier epoch is shown no longer."""
        former = self._live.pop(move.task, None)
        if former is not None:
            self._end(former, Step.SUPERSEDED, now_s)
        move.times[move.step] = now_s
        self._live[move.task] = move

    def drop(self, task: TaskId, now_s: float) -> None:
        """Give up a move of which nothing is logged."""
        self._end(self._live.pop(task), Step.DROPPED, now_s)

    def explain(self, record: Assigned, why: str) -> None:
        """Remember why a task is assigned anew, until its assignment is read."""
        if record.epoch > 1:
            self._why[record.task, record.epoch] = why

    def forget_prepared(self, now_s: float) -> None:
        """Give up everything of which nothing is logged: we lead no longer."""
        for task in self.prepared:
            self.drop(task, now_s)

    def observe(self, view: ControlView, fleet: Fleet, now_s: float, stages: Container[str]) -> None:
        """Read off the log and the heartbeats how far each move has come.

        The log may know tasks of stages that the query has no longer; nobody is left to end a move of theirs.
        """
        for task, known in view.tasks.items():
            if known.assigned is not None and task.stage in stages:
                self._adopt(task, known.assigned, view, now_s)
        for move in list(self._live.values()):
            self._advance(move, view, fleet, now_s)
            move.note(move.report(fleet), now_s)
            if move.step.ended:
                self._put_away(self._live.pop(move.task))
        for move in self.ended:
            if now_s - move.since_s < LATE_S:
                move.note(move.report(fleet), now_s)

    def _adopt(self, task: TaskId, assigned: Assigned, view: ControlView, now_s: float) -> None:
        """Follow an assignment that is not known as a move yet."""
        move = self._live.get(task)
        if assigned.epoch <= 1 or (move is not None and move.epoch >= assigned.epoch):
            return
        over = not view.unended(task) and view.of(task).complete
        if move is None and over and (task, assigned.epoch) not in self._why:
            return
        if move is not None:
            self._end(self._live.pop(task), Step.DROPPED if move.step is Step.PREPARE else Step.SUPERSEDED, now_s)
        source = assigned.waits_for[-1].owner if assigned.waits_for else ""
        why = self._why.pop((task, assigned.epoch), FOUND)
        self._live[task] = Move(
            task,
            source,
            assigned.owner,
            assigned.epoch,
            why,
            assigned.manner.strategy,
            Step.COMMITTED,
            {Step.COMMITTED: now_s},
            trace=assigned.trace,
        )

    def _advance(self, move: Move, view: ControlView, fleet: Fleet, now_s: float) -> None:
        known = view.of(move.task)
        if move.step is Step.PREPARE and known.assigned is not None and known.epoch == move.epoch:
            move.target = known.assigned.owner
            self._why.pop((move.task, move.epoch), None)
            move.to(Step.COMMITTED, now_s)
        if move.step is Step.COMMITTED and not view.unended(move.task):
            move.to(Step.RELEASED, now_s)
        if move.step is Step.RELEASED and (known.complete or runs(fleet, move.task, move.target, move.epoch)):
            move.to(Step.RUNNING, now_s)
        if move.step is Step.RUNNING and known.complete:
            move.to(Step.DONE, now_s)

    def _end(self, move: Move, step: Step, now_s: float) -> None:
        move.to(step, now_s)
        self._put_away(move)

    def _put_away(self, move: Move) -> None:
        self.ended.append(move)
        self._fresh.append(move)


def runs(fleet: Fleet, task: TaskId, replica: str, epoch: int) -> bool:
    """Whether a replica said last that it runs the task under this epoch."""
    report = said_by(fleet, replica, task, epoch)
    return report is not None and report.state == "running"
