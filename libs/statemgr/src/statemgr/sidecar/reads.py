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
        confirmed: whether the copy was the owner's within the lease, and as new as what the owner has written to its
            store; if not, it may be out of date. What is committed goes to the store right behind the commit; if the
            owner dies between the two, once it is back.
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


def is_whole(meta: StoreMeta | None, *, unfinished: bool) -> bool:
    """Whether the copy's entries are those of its own X: not while it is empty, half restored, or copied while in use.

    Whatever the log says: a store that was lost is made anew under the same epoch.
    """
    return meta is not None and meta.offset >= 0 and not unfinished


def is_claimed(view: ControlView, task: TaskId, epoch: int, meta: StoreMeta | None, replica: str) -> bool:
    """Whether a whole copy is its owner's at work: the replica has committed under this epoch, or said that it is done.

    Before that it may be a copy for a move to come, or still at the X of the epoch before.
    """
    if meta is None:
        return False
    known = view.tasks.get(task)
    if known is not None and known.complete and known.epoch == epoch and known.owner == replica:
        return meta.epoch == epoch
    return meta.progress is not None and meta.progress.epoch == epoch
