"""A replica's part in hand-overs, as figures, spans and log lines tell it: of tasks that come here, and that leave.

::

    hint ─▶ prepared        assigned ─▶ arrived ─▶ sent (first output) ─▶ complete ─▶ done        the new owner
                            assigned away ─▶ released                                            the old one

It only looks: whoever calls decides nothing by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from statemgr.clock import Clock
from statemgr.control.records import Assigned
from statemgr.types import TaskId
from towpath.coordinator.messages import Prepare
from towpath.stage.arrival import Arrival
from towpath.stage.metrics import HandOverMetrics
from towpath.stage.tasks import OwnedTask
from towpath.tracing.spans import Spans

log = structlog.get_logger()

LOOK_S = 1.0
"""Between two looks at how much state has come."""

AWAITED_S = 60.0
"""For so long the first output of a task is waited for; there may be no input for it."""

_FIGURES = ("bytes", "look_ups", "keys_asked", "local_hits")

TOLD_S = 10.0
"""For so long the coordinator is told what a hand-over came to: forty heartbeats."""


@dataclass
class _Taken:
    """A task that came here by a hand-over.

    Attributes:
        assigned: the assignment.
        begun_s: when it was read.
        arrived_s: when the task might run.
        phases: phase → its seconds.
        awaited: whether its first output is waited for.
        complete_s: when all state was here; None: not yet.
        came: what the migration told of itself at its end; empty: there was none.
    """

    assigned: Assigned
    begun_s: float
    arrived_s: float
    phases: dict[str, float]
    awaited: bool = True
    complete_s: float | None = None
    came: Mapping[str, Any] = field(default_factory=dict)

    @property
    def strategy(self) -> str:
        return str(self.assigned.manner.strategy)


@dataclass
class _Came:
    """What is counted already of the state that comes for a task."""

    bytes: int = 0
    look_ups: int = 0
    asked: int = 0
    local: int = 0


class HandOvers:
    """Looks at all of them; see the module.

    Args:
        metrics: of the replica.
        spans: where spans go.
        clock: time.
        replica: name of the replica.
    """

    def __init__(self, metrics: HandOverMetrics, spans: Spans, clock: Clock, replica: str) -> None:
        self._metrics = metrics
        self._spans = spans
        self._clock = clock
        self._replica = replica
        self._taken: dict[TaskId, _Taken] = {}
        self._leaving: dict[TaskId, tuple[Assigned, float]] = {}
        self._came: dict[tuple[TaskId, int], _Came] = {}
        self._look_s = float("-inf")

    def prepared(self, task: TaskId, hint: Prepare, begun_s: float, copied: Mapping[str, Any]) -> None:
        """Nothing more can be done for a task before it is assigned.

        Args:
            task: which.
            hint: what told of it.
            begun_s: when it came first.
            copied: what a copy of its state tells of itself; empty: none was made.
        """
        self._count(task, hint.epoch, str(hint.manner.strategy), copied)
        self._came.pop((task, hint.epoch), None)
        self._span("prepare", hint.trace, begun_s, task, hint.epoch, bytes=_whole(copied, "bytes"))

    def arrived(self, arrival: Arrival, owned: OwnedTask) -> None:
        """A task may run here."""
        assigned = arrival.assigned
        if assigned.epoch <= 1 or not arrival.fresh:
            return
        owned.silent = True
        phases = {str(phase): seconds for phase, seconds in arrival.spent.items()}
        taken = _Taken(assigned, arrival.begun_s, self._clock.monotonic_s(), phases)
        self._taken[assigned.task] = taken
        for phase, seconds in taken.phases.items():
            self._metrics.phase(taken.strategy, phase, seconds)
        about = {f"{phase}_s": round(seconds, 6) for phase, seconds in taken.phases.items()}
        self._span("take-over", assigned.trace, taken.begun_s, assigned.task, assigned.epoch, **about)
        if owned.migration is None:
            self._complete(taken, arrival.came)
            if arrival.said_done:
                self.done(assigned.task)

    def sent(self, owned: Mapping[int, OwnedTask]) -> None:
        """What the replica had in hand was committed."""
        for task, taken in self._taken.items():
            now = owned.get(task.partition)
            if taken.awaited and now is not None and not now.silent:
                taken.awaited = False
                self._phase(taken, "first_output", taken.begun_s)
                self._span("first output", taken.assigned.trace, taken.begun_s, task, taken.assigned.epoch)

    def look(self, owned: Mapping[int, OwnedTask], copies: Iterable[tuple[TaskId, Prepare, Mapping[str, Any]]]) -> None:
        """Count the state that has come since the last look, if it is time; to be called every turn.

        Args:
            owned: the replica's tasks.
            copies: those that are being made for tasks to come, by what hint, and what they tell of themselves; not
                looked at unless it is time.
        """
        now_s = self._clock.monotonic_s()
        if now_s < self._look_s:
            return
        self._look_s = now_s + LOOK_S
        under_way: set[tuple[TaskId, int]] = set()
        for task, taken in list(self._taken.items()):
            here = owned.get(task.partition)
            if here is not None and here.migration is not None:
                under_way.add((task, here.epoch))
                self._count(task, here.epoch, taken.strategy, here.migration.report())
            self._forget_if_over(task, taken, here, now_s)
        for task, hint, said in copies:
            under_way.add((task, hint.epoch))
            self._count(task, hint.epoch, str(hint.manner.strategy), said)
        self._came = {at: came for at, came in self._came.items() if at in under_way}

    def complete(self, task: TaskId, came: Mapping[str, Any]) -> None:
        """No other's copy is needed any more; to be called as often as one likes.

        Args:
            task: whose state is here.
            came: what the migration tells of itself; empty: nothing, or it is told already.
        """
        taken = self._taken.get(task)
        if taken is not None and taken.complete_s is None:
            self._phase(taken, "background", taken.arrived_s)
            about = {name: _whole(came, name) for name in _FIGURES}
            epoch = taken.assigned.epoch
            self._span("background copy", taken.assigned.trace, taken.arrived_s, task, epoch, **about)
            log.info("all state is here", task=str(task), epoch=epoch, seconds=taken.phases["background"], **about)
            self._complete(taken, came)

    def done(self, task: TaskId) -> None:
        """The log says so, too."""
        taken = self._taken.get(task)
        if taken is not None and taken.complete_s is not None:
            self._span("done", taken.assigned.trace, taken.complete_s, task, taken.assigned.epoch)

    def summary(self, task: TaskId, epoch: int) -> dict[str, Any] | None:
        """What the coordinator is told of a hand-over whose state has all come; None: nothing (any more)."""
        taken = self._taken.get(task)
        if taken is None or taken.complete_s is None or taken.assigned.epoch != epoch:
            return None
        return {**taken.came, "phases": {name: round(seconds, 6) for name, seconds in taken.phases.items()}}

    def leaving(self, owned: OwnedTask, assigned: Assigned | None) -> None:
        """A task was assigned to another; ``assigned``: to whom."""
        if assigned is not None:
            self._leaving.setdefault(owned.id, (assigned, self._clock.monotonic_s()))
        taken = self._taken.pop(owned.id, None)
        if taken is not None and owned.migration is not None:
            self._count(owned.id, owned.epoch, taken.strategy, owned.migration.report())

    def released(self, task: TaskId) -> None:
        """It is not owned any more, and the log says so."""
        assigned, begun_s = self._leaving.pop(task, (None, 0.0))
        if assigned is not None:
            self._metrics.phase(str(assigned.manner.strategy), "release", self._clock.monotonic_s() - begun_s)
            self._span("release", assigned.trace, begun_s, task, assigned.epoch)

    def drop(self) -> None:
        """Ownership was lost: what comes now is no hand-over."""
        self._taken, self._leaving, self._came = {}, {}, {}

    def close(self) -> None:
        """Nothing more will be told."""
        self._spans.close()

    def _forget_if_over(self, task: TaskId, taken: _Taken, here: OwnedTask | None, now_s: float) -> None:
        waited_s = now_s - taken.arrived_s
        if waited_s >= AWAITED_S:
            taken.awaited = False
            if here is not None:
                here.silent = False
        if not taken.awaited and taken.complete_s is not None and now_s - taken.complete_s >= TOLD_S:
            del self._taken[task]

    def _complete(self, taken: _Taken, came: Mapping[str, Any]) -> None:
        task, epoch = taken.assigned.task, taken.assigned.epoch
        taken.complete_s, taken.came = self._clock.monotonic_s(), came
        self._count(task, epoch, taken.strategy, came)
        self._came.pop((task, epoch), None)
        self._metrics.done(taken.strategy)

    def _phase(self, taken: _Taken, name: str, begun_s: float) -> None:
        taken.phases[name] = seconds = round(self._clock.monotonic_s() - begun_s, 6)
        self._metrics.phase(taken.strategy, name, seconds)

    def _count(self, task: TaskId, epoch: int, strategy: str, said: Mapping[str, Any]) -> None:
        """Count what is new since what was said of it last."""
        if "look_ups" not in said:
            return
        now = _Came(*(_whole(said, name) for name in _FIGURES))
        before = self._came.get((task, epoch), _Came())
        self._came[task, epoch] = now
        self._metrics.came(
            strategy,
            bytes_=max(0, now.bytes - before.bytes),
            look_ups=max(0, now.look_ups - before.look_ups),
            asked=max(0, now.asked - before.asked),
            local=max(0, now.local - before.local),
        )

    def _span(self, name: str, trace: str, begun_s: float, task: TaskId, epoch: int, **about: float) -> None:
        ended_s = self._clock.monotonic_s()
        self._spans.span(name, trace, begun_s, ended_s, task=str(task), epoch=epoch, replica=self._replica, **about)


def _whole(said: Mapping[str, Any], name: str) -> int:
    return int(said.get(name) or 0)
