"""Which of a holder's copies nobody needs any more, and which somebody may still ask for: decided from the log."""

from __future__ import annotations

from collections.abc import Iterable

from statemgr.control.view import ControlView, TaskView
from statemgr.types import TaskId

Copy = tuple[TaskId, int]
"""A store by task and epoch."""


def superseded(copies: Iterable[Copy], view: ControlView, name: str) -> list[Copy]:
    """Copies that may be deleted: the current owner has said that it needs no other's (R8).

    These are the copies of earlier epochs, and one that was prepared here for the current epoch, which then went to
    another. A copy of a later epoch is one that a replica prepares; whether it is used the log does not say yet.
    """
    return [copy for copy in copies if _is_superseded(copy[1], view.tasks.get(copy[0]), name)]


def needed(copies: Iterable[Copy], view: ControlView, name: str, *, own: bool = True) -> list[Copy]:
    """Copies for whose sake the holder should stay: listed for an owner that is not complete, or the owner's own.

    ``own`` says whether the latter count: the task may be given to another, which then asks for its copy.
    """
    return [copy for copy in copies if _is_needed(copy[1], view.tasks.get(copy[0]), name, own=own)]


def _is_superseded(epoch: int, view: TaskView | None, name: str) -> bool:
    if view is None or not view.complete:
        return False
    return epoch < view.epoch or (epoch == view.epoch and view.owner != name)


def _is_needed(epoch: int, view: TaskView | None, name: str, *, own: bool) -> bool:
    if view is None or view.assigned is None:
        return False
    if view.owner == name and epoch == view.epoch:
        return own
    listed = any(layer.holder == name and layer.epoch == epoch for layer in view.assigned.layers)
    return listed and not view.complete
