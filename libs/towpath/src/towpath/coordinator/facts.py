"""All that a decision may rest on, at one moment, and the plain questions about it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from statemgr.control.records import Layer, Manner, Tenure
from statemgr.control.view import ControlView
from statemgr.types import TaskId
from towpath.coordinator.assignments import next_layers
from towpath.coordinator.fleet import Fleet, Heard, Presence
from towpath.coordinator.limits import Limits
from towpath.coordinator.moves import Moves
from towpath.coordinator.placement import natural
from towpath.coordinator.platform import NO_PLATFORM, Platform, ordinal


@dataclass(frozen=True)
class StageFacts:
    """A stage of the application.

    Attributes:
        name: its name.
        partitions: how many tasks it has.
        stateful: whether it keeps state.
    """

    name: str
    partitions: int
    stateful: bool

    @property
    def tasks(self) -> list[TaskId]:
        """All its tasks."""
        return [TaskId(self.name, partition) for partition in range(self.partitions)]


@dataclass(frozen=True)
class Wait:
    """An owner whose end a task waits for, and since when (by our clock) it is the next to end."""

    epoch: int
    tenure: Tenure
    since_s: float


@dataclass(frozen=True)
class Facts:
    """What is known now.

    Attributes:
        view: the control log, read beyond everything that we wrote ourselves.
        fleet: what replicas and state managers said.
        stages: name → stage.
        moves: moves under way.
        pins: owners that somebody asked for.
        stand_ins: task → who holds a copy, for stages whose strategy is standby.
        waits: task → the owner whose end it waits for.
        term: ours.
        now_s: monotonic time.
        limits: deadlines.
        platform: what runs the replicas, where the coordinator asks it for more or fewer.
    """

    view: ControlView
    fleet: Fleet
    stages: Mapping[str, StageFacts]
    moves: Moves
    pins: Mapping[TaskId, str]
    stand_ins: Mapping[TaskId, str]
    waits: Mapping[TaskId, Wait]
    term: int
    now_s: float
    limits: Limits = field(default_factory=Limits)
    platform: Platform = NO_PLATFORM

    def manner(self, stage: str) -> Manner:
        """How the stage's state travels."""
        desired = self.view.desired.get(stage)
        return desired.manner if desired is not None else Manner()

    def asked(self, stage: str) -> int | None:
        """How many replicas an operator has asked for by the log; None: nobody has, or it was done."""
        desired = self.view.desired.get(stage)
        return desired.replicas if desired is not None else None

    def desired(self, stage: str) -> int | None:
        """How many replicas shall own tasks, by the log or else by what the platform is to run; None: all."""
        asked = self.asked(stage)
        return asked if asked is not None else self.platform.sizes.get(stage)

    def presence(self, stage: str, replica: str) -> Presence:
        """Whether a replica is there."""
        return self.fleet.presence(stage, replica, self.now_s, self.limits)

    def owners(self, stage: str) -> dict[int, str]:
        """Partition → owner by the log."""
        return {
            task.partition: known.owner
            for task, known in self.view.tasks.items()
            if task.stage == stage and known.owner is not None
        }

    def owned(self, stage: str, replica: str) -> list[TaskId]:
        """Tasks of a replica by the log, in order."""
        return sorted(self.view.owned_by(stage, replica))

    def unended(self, stage: str) -> Iterator[tuple[TaskId, Tenure]]:
        """Owners of this stage's tasks that may still be at work although others follow."""
        for task in list(self.view.tasks):
            if task.stage == stage:
                yield from ((task, tenure) for tenure in self.view.unended(task))

    def holds_on(self, stage: str, replica: str) -> bool:
        """Whether tasks wait for the end of this replica's tenure."""
        return any(tenure.owner == replica for _, tenure in self.unended(stage))

    def candidates(self, stage: str) -> dict[str, Heard]:
        """Replicas that may own tasks: there, not about to leave, and aware of their newest fence."""
        return {
            replica: heard
            for replica, heard in self.fleet.of_stage(stage)
            if self.presence(stage, replica) is Presence.PRESENT
            and not heard.leaving
            and heard.beat.control_offset > self.view.fenced.get((stage, replica), -1)
        }

    def members(self, stage: str) -> list[str]:
        """Replicas that are to own tasks.

        If fewer are wanted than there are: those that own some already, and among equals the first by name. Where a
        platform removes the highest ordinals, whoever they are: those below.
        """
        kept = self._kept(stage)
        if kept is not None:
            return sorted((name for name in self.candidates(stage) if (ordinal(name) or 0) < kept), key=natural)
        owners = set(self.owners(stage).values())
        ranked = sorted(self.candidates(stage), key=lambda name: (name not in owners, natural(name)))
        return sorted(ranked[: self.desired(stage)], key=natural)

    def gathered(self, stage: str) -> bool:
        """Whether no more replicas are on their way, as far as one can tell."""
        joined = [heard.joined_s for heard in self.candidates(stage).values()]
        desired = self.desired(stage)
        if desired is not None and len(joined) >= desired:
            return True
        return bool(joined) and self.now_s - max(joined) >= self.limits.gather_s

    def expecting(self, stage: str) -> bool:
        """Whether an owner by the log has not been heard since we began, and may yet come."""
        return any(self.presence(stage, owner) is Presence.EXPECTED for owner in set(self.owners(stage).values()))

    def _kept(self, stage: str) -> int | None:
        """The ordinal from which on the platform takes replicas away, now or when it is asked to; None: it has none."""
        size, asked = self.platform.sizes.get(stage), self.asked(stage)
        return size if size is None or asked is None else min(size, asked)

    def layers(self, task: TaskId) -> tuple[Layer, ...]:
        """Copies for the task's next owner."""
        stateful = self.stages[task.stage].stateful
        return next_layers(self.view, task, self.manner(task.stage), self.fleet.address, stateful=stateful)


def observe_waits(view: ControlView, former: Mapping[TaskId, Wait], now_s: float) -> dict[TaskId, Wait]:
    """For each task the owner that has to end next; its time runs from when it became the next."""
    waits: dict[TaskId, Wait] = {}
    for task in list(view.tasks):
        unended = view.unended(task)
        if not unended:
            continue
        before = former.get(task)
        if before is not None and before.epoch == view.of(task).epoch and before.tenure == unended[0]:
            waits[task] = before
        else:
            waits[task] = Wait(view.of(task).epoch, unended[0], now_s)
    return waits
