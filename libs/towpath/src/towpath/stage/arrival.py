"""One task on its way to this replica; see :mod:`towpath.stage.arrivals`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from statemgr.control.records import Assigned, Layer, Strategy
from statemgr.migration.ports import Description, Pending
from towpath.stage.tasks import OwnedTask


class ArrivalPhase(StrEnum):
    """Where an arriving task stands."""

    WAITING = "waiting"
    ASKING = "asking"
    OPENING = "opening"
    FILLING = "filling"


@dataclass
class Arrival:
    """One arriving task.

    Attributes:
        assigned: the assignment.
        phase: where it stands.
        asked: layer → the holder's answer to come.
        asked_s: when holders were asked first; None: not yet.
        not_before_s: monotonic time before which it is not begun again.
        opening: the task to come.
        task: the task, once its store is open but not yet filled.
        said_done: whether the log was told that it is restored.
        since_s: when the phase began.
        copied: whether a whole copy of its state was made for it before it was assigned.
        fresh: whether the assignment came after this replica's fence; if not, it may have run under it before.
        came: what the state's way here tells of itself, where all of it came before the first row.
        begun_s: when the assignment was read.
        spent: phase → seconds in it so far, the present one left out.
    """

    assigned: Assigned
    phase: ArrivalPhase
    since_s: float
    fresh: bool
    copied: bool
    asked: dict[Layer, Pending[Description]] = field(default_factory=dict)
    asked_s: float | None = None
    not_before_s: float = float("-inf")
    opening: Pending[OwnedTask] | None = None
    task: OwnedTask | None = None
    said_done: bool = False
    came: Mapping[str, Any] = field(default_factory=dict)
    begun_s: float = field(init=False)
    spent: dict[str, float] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.begun_s = self.since_s

    def to(self, phase: ArrivalPhase, now_s: float) -> None:
        """Go to a phase."""
        self.leave(now_s)
        self.phase, self.since_s = phase, now_s

    def leave(self, now_s: float) -> None:
        """The present phase is over."""
        self.spent[self.phase] = self.spent.get(self.phase, 0.0) + now_s - self.since_s

    @property
    def restarts(self) -> bool:
        """Whether it is part of a restart of its whole stage."""
        return self.assigned.manner.strategy is Strategy.RESTART
