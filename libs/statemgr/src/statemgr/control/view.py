"""What the control log says so far: a fold over its records, and the pure questions that are asked of it.

Every process that reads the log (replicas, state managers, coordinators) holds such a view; none decides ownership
by anything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from statemgr.control.records import (
    Assigned,
    Desired,
    Done,
    Fenced,
    Leader,
    Released,
    Tenure,
    decode_control,
)
from statemgr.types import TaskId


@dataclass
class TaskView:
    """What the log says of one task.

    Attributes:
        assigned: newest assignment; None before the first.
        assigned_at: its offset.
        released: newest release.
        done: newest completion.
    """

    assigned: Assigned | None = None
    assigned_at: int = -1
    released: Released | None = None
    done: Done | None = None

    @property
    def epoch(self) -> int:
        """Epoch of the newest assignment; 0 before the first."""
        return self.assigned.epoch if self.assigned is not None else 0

    @property
    def owner(self) -> str | None:
        """Owner by the newest assignment."""
        return self.assigned.owner if self.assigned is not None else None

    def assigned_elsewhere(self, replica: str, epoch: int) -> bool:
        """Whether a replica that runs the task under ``epoch`` must let go of it: another owner, or a newer epoch."""
        return self.assigned is not None and (self.owner != replica or self.epoch > epoch)

    @property
    def complete(self) -> bool:
        """Whether the newest owner has said that it needs no other's copy."""
        return self.done is not None and self.done.epoch == self.epoch


@dataclass
class ControlView:
    """The control log as read so far.

    Attributes:
        next_offset: offset after the last record applied.
        term: term of the newest coordinator.
        leader: its name.
        tasks: task → what is said of it.
        desired: stage → what is wanted.
        fenced: (stage, replica) → offset of its newest fence.
    """

    next_offset: int = 0
    term: int = 0
    leader: str = ""
    tasks: dict[TaskId, TaskView] = field(default_factory=dict)
    desired: dict[str, Desired] = field(default_factory=dict)
    fenced: dict[tuple[str, str], int] = field(default_factory=dict)

    def apply(self, offset: int, key: bytes | None, value: bytes | None) -> TaskId | None:
        """Take the next record.

        Returns:
            The task that it is about, if it is about one.

        Raises:
            CodecError: the record can't be understood; the reader stops (R19).
        """
        if offset < self.next_offset:
            return None
        record = decode_control(key, value)
        self.next_offset = offset + 1
        match record:
            case Leader(term=term, name=name):
                self.term, self.leader = term, name
            case Desired(stage=stage):
                self.desired[stage] = record
            case Fenced(stage=stage, replica=replica):
                self.fenced[stage, replica] = offset
            case Assigned():
                task = self.of(record.task)
                task.assigned, task.assigned_at = record, offset
                return record.task
            case Released():
                self.of(record.task).released = record
                return record.task
            case Done():
                self.of(record.task).done = record
                return record.task
        return None

    def of(self, task: TaskId) -> TaskView:
        """What is said of a task."""
        return self.tasks.setdefault(task, TaskView())

    def owned_by(self, stage: str, replica: str) -> Iterator[TaskId]:
        """Tasks of a stage whose newest assignment names the replica."""
        for task, view in self.tasks.items():
            if task.stage == stage and view.owner == replica:
                yield task

    def unended(self, task: TaskId) -> tuple[Tenure, ...]:
        """Owners that the task's newest assignment waits for and that may still be at work."""
        view = self.of(task)
        if view.assigned is None:
            return ()
        return tuple(
            tenure for tenure in view.assigned.waits_for if not has_ended(tenure, view, self.fenced, task.stage)
        )

    def may_start(self, task: TaskId, replica: str) -> bool:
        """Whether the replica owns the task now (R3): assigned to it, and every earlier owner has ended."""
        return self.of(task).owner == replica and not self.unended(task)


def has_ended(tenure: Tenure, view: TaskView, fenced: Mapping[tuple[str, str], int], stage: str) -> bool:
    """Whether an owner can write no more for a task.

    It has released that epoch, or a later one was released, which needs the end of all before; or it was fenced
    after the assignment that took the task from it was logged (intent before fence).
    """
    if view.released is not None and view.released.epoch >= tenure.epoch:
        return True
    return fenced.get((stage, tenure.owner), -1) > view.assigned_at
