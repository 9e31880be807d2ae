"""The next assignment of a task: whom it waits for, and where its state may be taken from (R3, R7)."""

from __future__ import annotations

from collections.abc import Callable

from statemgr.control.records import FROM_CHANGELOG, Assigned, Layer, Manner, Tenure
from statemgr.control.view import ControlView
from statemgr.types import TaskId

MAX_LAYERS = 3
"""Copies that a task may take its state from (R7); what only a fourth would have comes from the changelog."""


def next_layers(
    view: ControlView, task: TaskId, manner: Manner, address: Callable[[str], str], *, stateful: bool
) -> tuple[Layer, ...]:
    """Copies for the task's next owner, newest first: the present owner's, and what that one still needs itself."""
    known = view.of(task)
    before = known.assigned
    if before is None or not stateful or manner.strategy in FROM_CHANGELOG:
        return ()
    deeper = () if known.complete else before.layers
    layers = (Layer(before.owner, before.epoch), *deeper)[:MAX_LAYERS]
    return tuple(Layer(layer.holder, layer.epoch, address(layer.holder) or layer.address) for layer in layers)


def is_full(view: ControlView, task: TaskId) -> bool:
    """Whether another planned move would push out a copy that is still needed."""
    known = view.of(task)
    return known.assigned is not None and not known.complete and len(known.assigned.layers) >= MAX_LAYERS


def succeed(
    view: ControlView,
    task: TaskId,
    owner: str,
    manner: Manner,
    term: int,
    address: Callable[[str], str],
    *,
    stateful: bool,
) -> Assigned:
    """The task's next assignment.

    It waits for the present owner and for whoever that one still waits for. Earlier owners that have ended are left
    out: an end is final, whereas a fence counts only for assignments before it.
    """
    before = view.of(task).assigned
    waits_for = () if before is None else (*view.unended(task), Tenure(before.owner, before.epoch))
    return Assigned(
        stage=task.stage,
        partition=task.partition,
        epoch=view.of(task).epoch + 1,
        owner=owner,
        waits_for=waits_for,
        layers=next_layers(view, task, manner, address, stateful=stateful),
        manner=manner,
        term=term,
    )
