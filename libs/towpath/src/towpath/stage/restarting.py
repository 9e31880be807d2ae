"""The strategy *restart*: nothing of a stage runs between the last word of its owners and the restore of all its tasks.

::

    assigned anew, all at once ──▶ all owners have let go ──▶ restored, Done is logged ──▶ all are done ──▶ first row

Both are read off the control log, so no replica has to know another.
"""

from __future__ import annotations

from collections.abc import Iterator

from statemgr.control.records import Strategy
from statemgr.control.view import ControlView, TaskView
from statemgr.types import TaskId

PATIENCE_S = 30.0
"""How long a restored task waits for the others; a restore that takes longer holds up its own replica alone."""


def all_have_let_go(view: ControlView, stage: str) -> bool:
    """Whether no owner before the restart can write any more."""
    return not any(view.unended(task) for task, _ in _restarted(view, stage))


def all_are_restored(view: ControlView, stage: str) -> bool:
    """Whether every task of the restart has its state."""
    return all(known.complete for _, known in _restarted(view, stage))


def _restarted(view: ControlView, stage: str) -> Iterator[tuple[TaskId, TaskView]]:
    """Tasks whose newest assignment is part of a restart."""
    for task, known in list(view.tasks.items()):
        restarts = known.assigned is not None and known.assigned.manner.strategy is Strategy.RESTART
        if task.stage == stage and restarts:
            yield task, known
