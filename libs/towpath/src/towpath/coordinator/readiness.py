"""When a hinted move is committed: its target has prepared or has had its time, and its source knows."""

from __future__ import annotations

from statemgr.control.records import COPIES_FIRST
from towpath.coordinator.facts import Facts
from towpath.coordinator.moves import Move


def is_ready(facts: Facts, move: Move) -> bool:
    """Whether the target has prepared, or has had its time."""
    heard = facts.fleet.replicas.get((move.task.stage, move.target))
    told = heard.beat.ready if heard is not None else ()
    if any(ready.partition == move.task.partition and ready.epoch == move.epoch for ready in told):
        return True
    return facts.now_s - move.since_s >= patience_s(facts, move)


def alert_begins(facts: Facts, move: Move) -> bool:
    """Whether source and target are to watch the log from now on: for a copy that takes long only at its end (R16)."""
    return move.alerted_s is None and (move.strategy not in COPIES_FIRST or is_ready(facts, move))


def is_due(facts: Facts, move: Move) -> bool:
    """Whether the move is to be logged now."""
    if move.alerted_s is None or not is_ready(facts, move):
        return False
    return move.told or facts.now_s - move.alerted_s >= facts.limits.told_s


def patience_s(facts: Facts, move: Move) -> float:
    """How long its target has to prepare."""
    limits = facts.limits
    if move.strategy not in COPIES_FIRST:
        return limits.prepare_timeout_s
    heard = facts.fleet.replicas.get((move.task.stage, move.source))
    leaving = heard is not None and heard.leaving
    return min(limits.drain_copy_s, limits.copy_timeout_s) if leaving else limits.copy_timeout_s
