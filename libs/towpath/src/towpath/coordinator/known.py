"""Which replicas and state managers a coordinator knows: others are not heard, so that no name can be made up."""

from __future__ import annotations

from statemgr.types import TaskId
from towpath.coordinator.errors import RefusedError, UnknownNameError
from towpath.coordinator.facts import Facts
from towpath.coordinator.fleet import Fleet
from towpath.coordinator.messages import MOST_REPLICAS
from towpath.errors import nearest

MOST_HEARD = 2 * MOST_REPLICAS
"""Of a stage: all that it may have, and as many that have ended within the minute in which they are remembered."""


def require_newcomer(fleet: Fleet, stage: str, name: str) -> None:
    """Check that a replica is remembered already, or that there is room for one more.

    Raises:
        RefusedError: too many names were heard of late.
    """
    if (stage, name) not in fleet.replicas and sum(1 for _ in fleet.of_stage(stage)) >= MOST_HEARD:
        raise RefusedError(f"stage {stage} has been joined by {MOST_HEARD} replicas of late, and {name!r} is too many")


def require_replica(facts: Facts, stage: str, name: str) -> None:
    """Check that there is, or was of late, such a replica.

    Raises:
        UnknownNameError: there is no such stage, or nothing was heard of the replica and the log knows of none.
    """
    if stage not in facts.stages:
        raise UnknownNameError(f"there is no stage {stage!r}{nearest(stage, facts.stages)}")
    known = {replica for replica, _ in facts.fleet.of_stage(stage)} | owners(facts, stage)
    if name not in known:
        raise UnknownNameError(f"no replica {name!r} has joined stage {stage}{nearest(name, known)}")


def require_holder(facts: Facts, name: str) -> None:
    """Check that a replica of that name has, or may still have, copies of state.

    Raises:
        UnknownNameError: no replica of that name was heard, and the log knows of none.
    """
    heard = {replica for _, replica in facts.fleet.replicas} | facts.fleet.holders.keys()
    if name in heard or any(name in owners(facts, stage) for stage in facts.stages) or name in holders(facts):
        return
    raise UnknownNameError(f"no replica {name!r} has joined any stage{nearest(name, heard)}")


def owners(facts: Facts, stage: str) -> set[str]:
    """Owners of a stage's tasks by the log, those included that may not have ended yet."""
    return {*facts.owners(stage).values(), *(tenure.owner for _, tenure in facts.unended(stage))}


def holders(facts: Facts) -> set[str]:
    """Names whose copies the newest assignments list."""
    tasks: list[TaskId] = list(facts.view.tasks)
    assigned = [facts.view.of(task).assigned for task in tasks]
    return {layer.holder for each in assigned if each is not None for layer in each.layers}
