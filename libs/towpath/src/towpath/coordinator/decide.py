"""What to do now: facts in, named decisions out, no input or output.

::

    facts about a stage                                             decision
    an owner is gone, or did not release in time                    FailReplica: intent, fence, fenced
    tasks without any owner, and the replicas have gathered         Assign
    a task should be elsewhere                                      Plan (a hint; nothing is logged)
    a hinted move is ready or its time is up, and its source knows  Assign
    a hinted move is not wanted any more                            Drop
    strategy restart, and a task should be elsewhere                Assign, all tasks at once

Where a stage has several reasons, failures come first and the rest waits for the next turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from statemgr.control.records import FROM_CHANGELOG, Assigned, Strategy
from statemgr.types import TaskId
from towpath.coordinator.assignments import is_full, succeed
from towpath.coordinator.facts import Facts, StageFacts
from towpath.coordinator.fleet import Presence
from towpath.coordinator.moves import Move, Step
from towpath.coordinator.placement import place, stand_ins
from towpath.coordinator.readiness import is_due


@dataclass(frozen=True)
class FailReplica:
    """Give a replica's tasks to others, then fence it, then say so, in this order (R3).

    Attributes:
        stage: its stage.
        replica: its name.
        reason: for the log line.
        records: new assignments; empty: the intent is in the log already, or nobody else is there.
    """

    stage: str
    replica: str
    reason: str
    records: tuple[Assigned, ...]


@dataclass(frozen=True)
class Assign:
    """Log assignments, all in one transaction."""

    records: tuple[Assigned, ...]
    why: str


@dataclass(frozen=True)
class Plan:
    """Tell source and target that a move will come."""

    move: Move


@dataclass(frozen=True)
class Drop:
    """Forget a move of which nothing is logged."""

    task: TaskId


Decision = FailReplica | Assign | Plan | Drop


def decide(facts: Facts) -> list[Decision]:
    """Decisions for all stages, to be carried out in order."""
    return [decision for stage in facts.stages.values() for decision in _decide_stage(facts, stage)]


def assigns(decision: Decision) -> bool:
    """Whether it gives tasks to somebody."""
    return isinstance(decision, Assign | FailReplica) and bool(decision.records)


def targets(facts: Facts, stage: StageFacts, members: list[str]) -> dict[int, str]:
    """Where each task should be; a move that was hinted counts as made, so that plans are stable."""
    current = facts.owners(stage.name)
    for task, move in facts.moves.prepared.items():
        if task.stage == stage.name and move.target in members:
            current[task.partition] = move.target
    return place(
        range(stage.partitions),
        members,
        current,
        pinned={task.partition: name for task, name in facts.pins.items() if task.stage == stage.name},
        preferred={task.partition: name for task, name in facts.stand_ins.items() if task.stage == stage.name},
    )


def stand_ins_of(facts: Facts, stage: StageFacts) -> dict[TaskId, str]:
    """Who holds a copy of each task, where the strategy is standby."""
    if facts.manner(stage.name).strategy is not Strategy.STANDBY or not stage.stateful:
        return {}
    kept = {task.partition: name for task, name in facts.stand_ins.items() if task.stage == stage.name}
    chosen = stand_ins(range(stage.partitions), facts.members(stage.name), facts.owners(stage.name), kept)
    return {TaskId(stage.name, partition): name for partition, name in chosen.items()}


def _decide_stage(facts: Facts, stage: StageFacts) -> list[Decision]:
    failures: list[Decision] = list(_failures(facts, stage))
    return failures or list(_planned(facts, stage))


def _failures(facts: Facts, stage: StageFacts) -> Iterator[FailReplica]:
    concerned = set(facts.owners(stage.name).values()) | {tenure.owner for _, tenure in facts.unended(stage.name)}
    failed = {replica: reason for replica in sorted(concerned) if (reason := _failed(facts, stage.name, replica))}
    members = [name for name in facts.members(stage.name) if name not in failed]
    if not members:  # nobody to take over: whoever comes first, or comes back, goes on
        failed = {replica: reason for replica, reason in failed.items() if facts.holds_on(stage.name, replica)}
    assigned = _reassigned(facts, stage, set(failed), members)
    restart = facts.manner(stage.name).strategy is Strategy.RESTART
    for replica, reason in failed.items():
        if restart:
            records, assigned = tuple(assigned), []
        else:
            records = tuple(record for record in assigned if facts.view.of(record.task).owner == replica)
        if records or facts.holds_on(stage.name, replica):
            yield FailReplica(stage.name, replica, reason, records)


def _failed(facts: Facts, stage: str, replica: str) -> str | None:
    """Why a replica's tasks need other owners; None: they don't."""
    presence = facts.presence(stage, replica)
    if presence.gone:
        return {
            Presence.SILENT: f"not heard for {facts.limits.silence_s:g} s",
            Presence.DEAD: "reported dead",
            Presence.STOPPED: "ended with tasks of its own",
        }[presence]
    for task, wait in facts.waits.items():
        waited_s = facts.now_s - wait.since_s
        if task.stage == stage and wait.tenure.owner == replica and waited_s >= facts.limits.release_timeout_s:
            return f"task {task} was not released within {facts.limits.release_timeout_s:g} s"
    return None


def _reassigned(facts: Facts, stage: StageFacts, failed: set[str], members: list[str]) -> list[Assigned]:
    """New assignments of what the failed own; with restart of everything."""
    orphans = [task for task in stage.tasks if facts.view.of(task).owner in failed]
    if not members or not orphans:
        return []
    wanted = targets(facts, stage, members)
    restart = facts.manner(stage.name).strategy is Strategy.RESTART
    return [_succeed(facts, task, wanted[task.partition]) for task in (stage.tasks if restart else orphans)]


def _planned(facts: Facts, stage: StageFacts) -> Iterator[Decision]:
    members = facts.members(stage.name)
    if not members or facts.expecting(stage.name):
        yield from (Drop(task) for task, move in _hinted(facts, stage).items() if move.target not in members)
        return
    wanted = targets(facts, stage, members)
    first = [task for task in stage.tasks if facts.view.of(task).owner is None]
    if first and facts.gathered(stage.name):
        yield Assign(tuple(_succeed(facts, task, wanted[task.partition]) for task in first), "first owner")
        return
    astray = [task for task in stage.tasks if _is_astray(facts, task, wanted)]
    if facts.manner(stage.name).strategy is Strategy.RESTART or not stage.stateful:
        yield from _at_once(facts, stage, astray, wanted)
    else:
        yield from _by_hints(facts, stage, astray, wanted)


def _is_astray(facts: Facts, task: TaskId, wanted: Mapping[int, str]) -> bool:
    owner = facts.view.of(task).owner
    return owner is not None and wanted[task.partition] != owner


def _at_once(facts: Facts, stage: StageFacts, astray: list[TaskId], wanted: Mapping[int, str]) -> Iterator[Decision]:
    """Nothing to prepare. With restart the whole stage stops, once nothing else is under way in it."""
    yield from (Drop(task) for task in _hinted(facts, stage))
    if not astray or not facts.gathered(stage.name):
        return
    restart = facts.manner(stage.name).strategy is Strategy.RESTART
    moving = stage.tasks if restart else [task for task in astray if not facts.view.unended(task)]
    if moving and not (restart and any(facts.unended(stage.name))):
        yield Assign(
            tuple(_succeed(facts, task, wanted[task.partition]) for task in moving), _why(facts, stage.name, moving)
        )


def _by_hints(facts: Facts, stage: StageFacts, astray: list[TaskId], wanted: Mapping[int, str]) -> Iterator[Decision]:
    hinted = _hinted(facts, stage)
    void = [task for task, move in hinted.items() if _is_void(facts, task, move, wanted)]
    yield from (Drop(task) for task in void)
    due = [task for task, move in hinted.items() if task not in void and is_due(facts, move)]
    if due:
        records = tuple(_succeed(facts, task, hinted[task].target) for task in due)
        yield Assign(records, hinted[due[0]].why)
    if facts.gathered(stage.name):
        for task in astray:
            if task not in hinted and _may_move(facts, task):
                yield Plan(_move(facts, task, wanted[task.partition]))


def _hinted(facts: Facts, stage: StageFacts) -> dict[TaskId, Move]:
    return {task: move for task, move in facts.moves.prepared.items() if task.stage == stage.name}


def _is_void(facts: Facts, task: TaskId, move: Move, wanted: Mapping[int, str]) -> bool:
    known = facts.view.of(task)
    return move.epoch != known.epoch + 1 or move.target != wanted[task.partition] or move.target == known.owner


def _may_move(facts: Facts, task: TaskId) -> bool:
    """Whether its last move is over as far as ownership goes, and it has room for another copy (R7)."""
    manner = facts.manner(task.stage)
    return not facts.view.unended(task) and (manner.strategy in FROM_CHANGELOG or not is_full(facts.view, task))


def _move(facts: Facts, task: TaskId, target: str) -> Move:
    known = facts.view.of(task)
    strategy, why = facts.manner(task.stage).strategy, _why(facts, task.stage, [task])
    return Move(task, known.owner or "", target, known.epoch + 1, why, strategy, Step.PREPARE)


def _why(facts: Facts, stage: str, tasks: list[TaskId]) -> str:
    if any(task in facts.pins for task in tasks):
        return "asked for"
    owners = {facts.view.of(task).owner for task in tasks}
    leaving = {replica for replica, heard in facts.fleet.of_stage(stage) if heard.leaving}
    return "drain" if owners & leaving else "scale"


def _succeed(facts: Facts, task: TaskId, owner: str) -> Assigned:
    manner = facts.manner(task.stage)
    stateful = facts.stages[task.stage].stateful
    return succeed(facts.view, task, owner, manner, facts.term, facts.fleet.address, stateful=stateful)
