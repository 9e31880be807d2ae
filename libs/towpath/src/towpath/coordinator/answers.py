"""What a replica is told: pure, from the same facts as the decisions."""

from __future__ import annotations

from collections.abc import Iterator

from statemgr.control.view import TaskView
from statemgr.types import TaskId
from towpath.coordinator.assignments import is_full
from towpath.coordinator.facts import Facts
from towpath.coordinator.fleet import Presence
from towpath.coordinator.messages import HeartbeatAnswer, Prepare
from towpath.coordinator.moves import Move, Step
from towpath.coordinator.readiness import alert_begins


def answer(facts: Facts, stage: str, replica: str, *, settled: bool = True) -> HeartbeatAnswer:
    """Hints for a replica.

    ``settled``: whether all that was decided is in the view; until it is, a replica that wants to leave may just have
    been given a task, and is told to stay.
    """
    return HeartbeatAnswer(
        term=facts.term,
        prepare=[*_moving_in(facts, stage, replica), *_standing_copies(facts, stage, replica)],
        alert_s=facts.limits.alert_s if is_alerted(facts, stage, replica) else 0.0,
        hurry=[task.partition for task in facts.owned(stage, replica) if _hurries(facts, task)],
        holders=facts.fleet.addresses(),
        drained=settled and is_drained(facts, stage, replica),
    )


def alerted_moves(facts: Facts, stage: str, replica: str) -> Iterator[Move]:
    """Moves that the replica is about to take part in, or takes part in."""
    for move in facts.moves:
        near = move.step is Step.COMMITTED or (
            move.step is Step.PREPARE and (move.alerted_s is not None or alert_begins(facts, move))
        )
        if near and move.task.stage == stage and replica in (move.source, move.target):
            yield move


def is_alerted(facts: Facts, stage: str, replica: str) -> bool:
    """Whether the replica should watch the log closely."""
    return any(True for _ in alerted_moves(facts, stage, replica))


def is_drained(facts: Facts, stage: str, replica: str) -> bool:
    """Whether a replica that wants to leave may: it owns nothing and nobody waits for it, or nobody can take over.

    In the latter case its tasks stay its own; whoever comes first, or it again, goes on with them.
    """
    heard = facts.fleet.replicas.get((stage, replica))
    if heard is None or not heard.leaving:
        return False
    if not facts.members(stage) and not facts.expecting(stage):
        return True
    return not facts.owned(stage, replica) and not facts.holds_on(stage, replica)


def _moving_in(facts: Facts, stage: str, replica: str) -> Iterator[Prepare]:
    for task, move in facts.moves.prepared.items():
        if task.stage == stage and move.target == replica:
            yield _prepare(facts, task, move.trace)


def _standing_copies(facts: Facts, stage: str, replica: str) -> Iterator[Prepare]:
    hinted = facts.moves.prepared
    for task, stand_in in facts.stand_ins.items():
        owner = facts.view.of(task).owner
        if task.stage == stage and stand_in == replica and task not in hinted and owner not in (None, replica):
            yield _prepare(facts, task)


def _prepare(facts: Facts, task: TaskId, trace: str = "") -> Prepare:
    return Prepare(
        partition=task.partition,
        epoch=facts.view.of(task).epoch + 1,
        layers=list(facts.layers(task)),
        manner=facts.manner(task.stage),
        trace=trace,
    )


def _hurries(facts: Facts, task: TaskId) -> bool:
    """Whether a holder of the task's state wants to leave, or the task can't move on before it has all of it."""
    known = facts.view.of(task)
    return not known.complete and (is_full(facts.view, task) or _holder_leaves(facts, task, known))


def _holder_leaves(facts: Facts, task: TaskId, known: TaskView) -> bool:
    for layer in known.assigned.layers if known.assigned is not None else ():
        heard = facts.fleet.replicas.get((task.stage, layer.holder))
        if heard is None or heard.leaving or facts.presence(task.stage, layer.holder) is not Presence.PRESENT:
            return True
    return False
