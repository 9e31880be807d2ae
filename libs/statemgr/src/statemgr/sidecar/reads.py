"""Reads of committed state from outside (R15): from which copy, and whether it can be relied upon."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from statemgr.control.view import ControlView
from statemgr.migration.ports import Found
from statemgr.store.base import StoreMeta
from statemgr.types import TaskId


@dataclass(frozen=True)
class Read:
    """Answer to a read.

    Attributes:
        epoch: epoch of the copy; no answer mixes copies.
        offset: its X.
        found: for each key its value, or why there is none; ``UNKNOWN``: it is still at another holder. May be shorter
            than asked where the answer would be too large.
        confirmed: whether the copy was the owner's within the lease, and as new as its last commit; if not, it may be
            out of date.
        owner: the task's owner as far as the control log was read; None: the log names none.
    """

    epoch: int
    offset: int
    found: tuple[bytes | Found, ...]
    confirmed: bool
    owner: str | None


def newest(view: ControlView, task: TaskId, existing: Sequence[int]) -> int | None:
    """The copy to read: that of the newest assignment, else the newest there is; None: there is none.

    A later one than the newest assignment's is being prepared, and looked at only where there is nothing else.
    """
    known = view.tasks.get(task)
    usable = [epoch for epoch in existing if known is None or epoch <= known.epoch]
    return max(usable or existing, default=None)


def owner(view: ControlView, task: TaskId) -> str | None:
    """The task's owner by the newest assignment."""
    known = view.tasks.get(task)
    return known.owner if known is not None else None


def owns(view: ControlView, task: TaskId, epoch: int, replica: str) -> bool:
    """Whether by the log the replica owns the task under this epoch, has begun, and has not let go."""
    known = view.tasks.get(task)
    if known is None or known.epoch != epoch:
        return False
    released = known.released is not None and known.released.epoch >= epoch
    return view.may_start(task, replica) and not released


def is_claimed(view: ControlView, task: TaskId, epoch: int, meta: StoreMeta | None, replica: str) -> bool:
    """Whether the replica has committed as owner under this epoch, so that its copy is as new as the changelog.

    Before that it may still be empty, or half restored, although the log says that the owner may begin.
    """
    known = view.tasks.get(task)
    if known is not None and known.complete and known.epoch == epoch and known.owner == replica:
        return True
    return meta is not None and meta.progress is not None and meta.progress.epoch == epoch


def is_foreign(view: ControlView, task: TaskId, epoch: int, replica: str) -> bool:
    """Whether the log gives this epoch to another replica, or to nobody: the copy was made for a move to come.

    It was copied from a store in use, so that it has values that are newer than its X.
    """
    known = view.tasks.get(task)
    return known is not None and (known.epoch, known.owner) != (epoch, replica)
