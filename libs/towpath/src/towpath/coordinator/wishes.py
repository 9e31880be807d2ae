"""What operators ask for: checked at once, logged by the next turn, answered when it has been read back."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import structlog

from statemgr.control.records import Desired
from statemgr.types import TaskId
from towpath.coordinator.control_writer import ControlWriter
from towpath.coordinator.errors import NotLeadingError, RefusedError
from towpath.coordinator.facts import Facts, StageFacts
from towpath.coordinator.messages import MoveRequest
from towpath.errors import nearest

log = structlog.get_logger()

MOST_WISHES = 8
"""That are not in force yet: whoever asked for one may hold a thread for 12 s, of the 40 that serve heartbeats, too."""


@dataclass
class Wish:
    """A record that an operator asked for.

    Attributes:
        record: what is to be logged.
        ends: tasks whose owner was asked for earlier, which counts no longer once this is in force.
        decided: set when it is in force, or will not be.
        error: why it will not be.
    """

    record: Desired
    ends: set[TaskId] = field(default_factory=set)
    decided: threading.Event = field(default_factory=threading.Event)
    error: str | None = None


class Wishes:
    """Those that are not in force yet."""

    def __init__(self) -> None:
        self._waiting: deque[Wish] = deque()
        self._logged: list[Wish] = []

    @property
    def waiting(self) -> bool:
        """Whether some are still to be logged."""
        return bool(self._waiting)

    def add(self, record: Desired, ends: Iterable[TaskId]) -> Wish:
        """Take one, and the tasks whose owner was asked for before it.

        Raises:
            NotLeadingError: too many are not in force yet.
        """
        if len(self._logged) + len(self._waiting) >= MOST_WISHES:
            raise NotLeadingError(
                f"{MOST_WISHES} requests are not in force yet, and no more are taken until they are; see /health"
            )
        wish = Wish(record, set(ends))
        self._waiting.append(wish)
        return wish

    def newest(self, stage: str) -> Desired | None:
        """What the newest of them wants of a stage; None: none is about it."""
        wanted = [wish.record for wish in (*self._logged, *self._waiting) if wish.record.stage == stage]
        return wanted[-1] if wanted else None

    def outlive(self, task: TaskId) -> None:
        """An owner was asked for now: none of those that were taken before ends that."""
        for wish in (*self._logged, *self._waiting):
            wish.ends.discard(task)

    def log(self, writer: ControlWriter) -> None:
        """Write them all.

        Raises:
            ProducerLostError: they are not written, or nobody knows.
        """
        wishes = list(self._waiting)
        writer.write([wish.record for wish in wishes])
        for wish in wishes:
            self._logged.append(self._waiting.popleft())
            wanted = wish.record
            log.info("wanted", stage=wanted.stage, replicas=wanted.replicas, strategy=str(wanted.manner.strategy))

    def confirm(self) -> set[TaskId]:
        """All that was written has been read back: whoever looks now sees what was asked for.

        Returns:
            Tasks of which what was asked for earlier counts no longer.
        """
        confirmed, self._logged = self._logged, []
        for wish in confirmed:
            wish.decided.set()
        return {task for wish in confirmed for task in wish.ends}

    def give_up(self, error: str) -> None:
        """Tell all who wait that nothing will come of it, as far as we know."""
        for wish in (*self._logged, *self._waiting):
            wish.error = error
            wish.decided.set()
        self._logged = []
        self._waiting.clear()


def require_stage(app: str, stages: Mapping[str, StageFacts], name: str) -> StageFacts:
    """The stage of that name.

    Raises:
        RefusedError: there is none; names those there are.
    """
    if name not in stages:
        raise RefusedError(f"{app} has no stage {name!r}{nearest(name, stages)} (its stages: {', '.join(stages)})")
    return stages[name]


def require_move(facts: Facts, stage: StageFacts, request: MoveRequest) -> TaskId:
    """The task of a request whose task and replica there are.

    Raises:
        RefusedError: there is no such task, or no such replica that is to own tasks.
    """
    task, members = TaskId(request.stage, request.partition), facts.members(stage.name)
    if task not in stage.tasks:
        raise RefusedError(f"there is no task {task}: those of {stage.name} are 0 … {stage.partitions - 1}")
    if request.replica not in members:
        raise RefusedError(
            f"{request.replica!r} is not among the replicas that own tasks of stage {stage.name}"
            f"{nearest(request.replica, members)} (they are: {', '.join(members) or 'none'})"
        )
    return task
