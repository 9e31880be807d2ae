"""What the supervisor of one replica does about what happens to its two processes: pure decisions.

A pod is a stage process and, where the stage has state, the state manager that serves its stores::

    running ──(asked to stop)──▶ draining ──(stage has ended)──▶ lingering ──▶ ended
       │                                                             ▲
       └──(the stage ended by its own decision: 0, 1, 2)─────────────┘

While it runs, a process that crashes is started again, and a dead stage is reported to the coordinator at once, so
that its tasks need not wait until its silence is noticed (R18). While it drains, the stage works on until its tasks
have been moved away (R20). Then the state manager lingers, since others may still take state from its stores.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from enum import StrEnum

from towpath.launch.programs import EXPECTED_EXITS, GRACE_S

ENDED_BY_TERM = 128 + signal.SIGTERM
"""Status of a process that was asked to stop before it could heed it: it had not begun anything."""

MARGIN_S = 10.0
"""Kept of the grace period: for the stage's last transaction and the ends of the processes."""

HEALTHY_S = 10.0
"""A process that has lived this long is started again at once when it crashes."""

FIRST_BACKOFF_S = 0.1
LAST_BACKOFF_S = 5.0
"""Waits before a process that crashes again and again is started, doubled from the first to the last."""


class Part(StrEnum):
    """The processes of a pod."""

    STAGE = "stage"
    STATE_MANAGER = "statemgr"


class PodPhase(StrEnum):
    """Where a pod stands."""

    RUNNING = "running"
    DRAINING = "draining"
    LINGERING = "lingering"
    ENDED = "ended"


@dataclass(frozen=True)
class Start:
    """Start a process after so many seconds."""

    part: Part
    after_s: float = 0.0


@dataclass(frozen=True)
class Send:
    """Send a signal to a process; one that is not there won't be started any more."""

    part: Part
    number: signal.Signals


@dataclass(frozen=True)
class Report:
    """Tell the coordinator that the stage process is dead."""


@dataclass(frozen=True)
class Say:
    """Say something to the operator."""

    text: str


Action = Start | Send | Report | Say


@dataclass
class _Life:
    alive: bool = False
    due: bool = False
    since_s: float = 0.0
    crashes: int = 0


@dataclass
class PodPolicy:
    """Decides for one pod; every method gives what is to be done now.

    Args:
        stateful: whether there is a state manager.
        grace_s: time from the stop request to the end of everything.

    Attributes:
        phase: where the pod stands.
        status: exit status of the pod: the stage's, or that of a state manager that can't run.
        deadline_s: monotonic time at which everything ends; None before a stop request.
    """

    stateful: bool
    grace_s: float = GRACE_S - MARGIN_S
    phase: PodPhase = PodPhase.RUNNING
    status: int = 0
    deadline_s: float | None = None
    _lives: dict[Part, _Life] = field(default_factory=lambda: {part: _Life() for part in Part})

    def begin(self) -> list[Action]:
        """Start what the pod consists of: the state manager first, since the stage asks for its address."""
        parts = [Part.STATE_MANAGER, Part.STAGE] if self.stateful else [Part.STAGE]
        return [self._start(part) for part in parts]

    def started(self, part: Part, now_s: float) -> list[Action]:
        """A process is there."""
        life = self._lives[part]
        life.alive, life.due, life.since_s = True, False, now_s
        if self.phase is PodPhase.ENDED:
            return [Send(part, signal.SIGKILL)]
        return [Send(part, signal.SIGTERM)] if self.phase is PodPhase.LINGERING else []

    def exited(self, part: Part, status: int, now_s: float) -> list[Action]:
        """A process has ended; ``status`` as a shell says it: 128 + number after a signal."""
        self._lives[part].alive = False
        if part is Part.STAGE:
            return self._stage_exited(status, now_s)
        return self._state_manager_exited(status, now_s)

    def stop(self, now_s: float) -> list[Action]:
        """Asked to stop: drain. Asked again: end at once."""
        if self.phase is not PodPhase.RUNNING:
            return [Say("asked to stop again: ending at once"), *self.overdue()]
        self.deadline_s = now_s + self.grace_s
        self.phase = PodPhase.DRAINING
        said = Say(f"asked to stop: draining for at most {self.grace_s:g} s")
        away: list[Action] = [] if self._lives[Part.STAGE].alive else self._linger(now_s)
        return [said, Send(Part.STAGE, signal.SIGTERM), *away]

    def overdue(self) -> list[Action]:
        """The deadline has passed: nothing is waited for any more."""
        self.phase = PodPhase.ENDED
        return [Send(part, signal.SIGKILL) for part in Part]

    def _stage_exited(self, status: int, now_s: float) -> list[Action]:
        if self.phase is PodPhase.DRAINING:
            status = 0 if status == ENDED_BY_TERM else status
            self.status = self.status or status
            report: list[Action] = [] if status == 0 else [Report()]
            return [*report, Say(f"the stage ended with status {status}"), *self._linger(now_s)]
        if self.phase is not PodPhase.RUNNING:
            return []
        if status in EXPECTED_EXITS:
            self.status, self.deadline_s = status, now_s + self.grace_s
            return [Report(), Say(f"the stage ended by itself with status {status}"), *self._linger(now_s)]
        return [Report(), *self._again(Part.STAGE, status, now_s)]

    def _state_manager_exited(self, status: int, now_s: float) -> list[Action]:
        if self.phase is PodPhase.ENDED:
            return []
        if self.phase is PodPhase.LINGERING and status in {*EXPECTED_EXITS, ENDED_BY_TERM}:
            self.phase = PodPhase.ENDED
            return []
        if status in EXPECTED_EXITS and status != 0:
            self.status = status
            asked = self.stop(now_s) if self.phase is PodPhase.RUNNING else []
            return [Say(f"the state manager can't run (status {status})"), *asked]
        return self._again(Part.STATE_MANAGER, status, now_s)

    def _linger(self, now_s: float) -> list[Action]:
        """The stage is gone: the state manager serves what others need, then ends by itself."""
        life = self._lives[Part.STATE_MANAGER]
        if not (life.alive or life.due):
            self.phase = PodPhase.ENDED
            return []
        self.phase = PodPhase.LINGERING
        left_s = (self.deadline_s or now_s) - now_s
        said = Say(f"the state manager stays until nobody needs its copies, at most {left_s:.0f} s")
        return [said, Send(Part.STATE_MANAGER, signal.SIGTERM)] if life.alive else [said]

    def _again(self, part: Part, status: int, now_s: float) -> list[Action]:
        life = self._lives[part]
        life.crashes = 1 if now_s - life.since_s >= HEALTHY_S else life.crashes + 1
        after_s = 0.0 if life.crashes == 1 else min(LAST_BACKOFF_S, FIRST_BACKOFF_S * 2.0 ** (life.crashes - 2))
        return [Say(f"{part} crashed with status {status} and is started again"), self._start(part, after_s)]

    def _start(self, part: Part, after_s: float = 0.0) -> Start:
        self._lives[part].due = True
        return Start(part, after_s)
