"""What a coordinator remembers beside the log: what it heard, what it hinted, what was asked of it.

None of it decides ownership, so a restart may lose it all: heartbeats come again, and moves are read off the log.
Only what ``move`` asked for is gone then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from statemgr.control.view import ControlView
from statemgr.types import TaskId
from towpath.coordinator.decide import stand_ins_of
from towpath.coordinator.facts import Facts, StageFacts, Wait, observe_waits
from towpath.coordinator.fleet import Fleet
from towpath.coordinator.limits import Limits
from towpath.coordinator.moves import Moves
from towpath.coordinator.platform import NO_PLATFORM, Platform
from towpath.coordinator.readiness import alert_begins


class Memory:
    """The coordinator's own memory.

    Attributes:
        fleet: what was heard.
        moves: moves under way, and some that have ended.
        pins: owners that somebody asked for, until the coordinator restarts.
        platform: what it said last.
    """

    def __init__(self, stages: Mapping[str, StageFacts], limits: Limits, now_s: float) -> None:
        self.fleet = Fleet(now_s)
        self.moves = Moves()
        self.pins: dict[TaskId, str] = {}
        self.platform: Platform = NO_PLATFORM
        self._stages = stages
        self._limits = limits
        self._stand_ins: dict[TaskId, str] = {}
        self._waits: dict[TaskId, Wait] = {}

    def facts(self, view: ControlView, term: int, now_s: float) -> Facts:
        """All that a decision may rest on."""
        return Facts(
            view=view,
            fleet=self.fleet,
            stages=self._stages,
            moves=self.moves,
            pins=self.pins,
            stand_ins=self._stand_ins,
            waits=self._waits,
            term=term,
            now_s=now_s,
            limits=self._limits,
            platform=self.platform,
        )

    def observe(self, view: ControlView, term: int, now_s: float) -> Facts:
        """Bring everything up to what the log and the heartbeats say now."""
        self.fleet.forget(now_s, self._limits.forget_s)
        self._waits = observe_waits(view, self._waits, now_s)
        self.moves.observe(view, self.fleet, now_s, self._stages)
        facts = self.facts(view, term, now_s)
        members = {stage: facts.members(stage) for stage in self._stages}
        self.pins = {task: name for task, name in self.pins.items() if name in members[task.stage]}
        self._stand_ins = {
            task: name for stage in self._stages.values() for task, name in stand_ins_of(facts, stage).items()
        }
        for move in self.moves.prepared.values():
            if alert_begins(facts, move):
                move.alerted_s = now_s
        return self.facts(view, term, now_s)

    def pinned(self, stage: str) -> list[TaskId]:
        """Tasks of a stage that somebody asked an owner for."""
        return [task for task in self.pins if task.stage == stage]

    def unpin(self, tasks: Iterable[TaskId]) -> None:
        """Forget what was asked for about tasks."""
        for task in tasks:
            self.pins.pop(task, None)

    def pass_over(self, gap_s: float, now_s: float) -> None:
        """We were not listening or not acting for so long: that part of a silence or a wait proves nothing (R19)."""
        self.fleet.pass_over(gap_s, now_s, self._limits)
        self._waits = {
            task: replace(wait, since_s=min(now_s, wait.since_s + gap_s)) for task, wait in self._waits.items()
        }

    def forget_silence(self, now_s: float) -> None:
        """We begin to listen: neither silence nor waiting until now proves anything (R19)."""
        self.fleet.forget_silence(now_s)
        self._waits = {}
