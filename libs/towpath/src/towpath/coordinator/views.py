"""What operators are shown: pure, from the facts."""

from __future__ import annotations

from collections.abc import Iterator

from statemgr.types import TaskId
from towpath.coordinator.decide import targets
from towpath.coordinator.facts import Facts, StageFacts
from towpath.coordinator.fleet import Presence
from towpath.coordinator.messages import TaskReport
from towpath.coordinator.moves import Move, Step, runs
from towpath.coordinator.placement import natural
from towpath.coordinator.statuses import MigrationStatus, ReplicaStatus, StageStatus, TaskStatus, Topology

RUN_PATIENCE_S = 30.0
"""A task that its new owner does not run by then is shown as stalled: opening takes a second, a long replay says so."""


def report_of(facts: Facts, task: TaskId) -> TaskReport | None:
    """What the task's owner says of it under its present epoch."""
    known = facts.view.of(task)
    heard = facts.fleet.replicas.get((task.stage, known.owner or ""))
    if heard is None or facts.presence(task.stage, known.owner or "") is not Presence.PRESENT:
        return None
    found = (each for each in heard.beat.tasks if each.partition == task.partition and each.epoch == known.epoch)
    return next(found, None)


def task_status(facts: Facts, task: TaskId) -> TaskStatus:
    """One task."""
    known, report, move = facts.view.of(task), report_of(facts, task), facts.moves.get(task)
    layers = known.assigned.layers if known.assigned is not None and not known.complete else ()
    planned = move if move is not None and move.step is Step.PREPARE else None
    return TaskStatus(
        task=str(task),
        stage=task.stage,
        partition=task.partition,
        owner=known.owner,
        epoch=known.epoch,
        state="unassigned" if known.owner is None else report.state if report is not None else "silent",
        complete=known.complete,
        layers=list(layers),
        waits_for=[tenure.owner for tenure in facts.view.unended(task)],
        moving_to=planned.target if planned is not None else None,
        step=move.step if move is not None else None,
        lag=report.lag if report is not None else None,
        migration=report.migration if report is not None else None,
    )


def topology(facts: Facts, app: str, *, leading: bool) -> Topology:
    """The whole application."""
    return Topology(
        app=app,
        term=facts.view.term,
        leading=leading,
        stages=[stage_status(facts, stage) for stage in facts.stages.values()],
        replicas=replica_statuses(facts),
    )


def task_statuses(facts: Facts) -> list[TaskStatus]:
    """All tasks, in order."""
    return [task_status(facts, task) for stage in facts.stages.values() for task in stage.tasks]


def stage_status(facts: Facts, stage: StageFacts) -> StageStatus:
    """One stage."""
    missing = next(_missing(facts, stage), None)
    return StageStatus(
        stage=stage.name,
        partitions=stage.partitions,
        stateful=stage.stateful,
        desired=facts.desired(stage.name),
        manner=facts.manner(stage.name),
        members=facts.members(stage.name),
        moves=sum(move.task.stage == stage.name and move.step is not Step.RUNNING for move in facts.moves),
        incomplete=sum(
            facts.view.of(task).owner is not None and not facts.view.of(task).complete for task in stage.tasks
        ),
        settled=missing is None,
        waiting_for=missing,
    )


def replica_statuses(facts: Facts) -> list[ReplicaStatus]:
    """All replicas that were heard or that own something."""
    names = set(facts.fleet.replicas) | {
        (stage, owner) for stage in facts.stages for owner in facts.owners(stage).values()
    }
    return [
        _replica_status(facts, stage, name) for stage, name in sorted(names, key=lambda it: (it[0], natural(it[1])))
    ]


def migration_statuses(facts: Facts) -> list[MigrationStatus]:
    """Moves under way, then those that have ended, newest first."""
    active = sorted(facts.moves, key=lambda move: move.task)
    ended = sorted(facts.moves.ended, key=lambda move: -move.since_s)
    return [_migration_status(facts, move) for move in (*active, *ended)]


def _missing(facts: Facts, stage: StageFacts) -> Iterator[str]:
    """What is missing until the stage is as it should be."""
    members, desired = facts.members(stage.name), facts.desired(stage.name)
    if len(members) < (desired or 1):
        yield f"{len(members)} of {desired or 1} replicas are there"
    wanted = targets(facts, stage, members)
    for task in stage.tasks:
        known = facts.view.of(task)
        if known.owner is None:
            yield f"{task} has no owner yet"
        elif known.owner != wanted.get(task.partition):
            yield f"{task} is to move from {known.owner} to {wanted.get(task.partition, 'nobody')}"
        elif facts.view.unended(task):
            yield f"{task} waits for {facts.view.unended(task)[0].owner} to release it"
        elif not runs(facts.fleet, task, known.owner, known.epoch):
            yield f"{task} does not run at {known.owner} yet"
    if any(move.task.stage == stage.name for move in facts.moves.prepared.values()):
        yield "moves are prepared"


def _replica_status(facts: Facts, stage: str, name: str) -> ReplicaStatus:
    heard = facts.fleet.replicas.get((stage, name))
    presence = facts.presence(stage, name)
    return ReplicaStatus(
        stage=stage,
        replica=name,
        phase=heard.beat.phase if heard is not None and presence is Presence.PRESENT else str(presence),
        member=name in facts.members(stage),
        draining=heard.leaving if heard is not None else False,
        tasks=[task.partition for task in facts.owned(stage, name)],
        heard_s=round(facts.now_s - heard.at_s, 3) if heard is not None else None,
        state_address=facts.fleet.address(name),
        http_address=heard.beat.http_address if heard is not None else "",
    )


def _migration_status(facts: Facts, move: Move) -> MigrationStatus:
    report = report_of(facts, move.task) if not move.step.ended else None
    until_s = move.since_s if move.step.ended else facts.now_s
    return MigrationStatus(
        task=str(move.task),
        stage=move.task.stage,
        partition=move.task.partition,
        source=move.source,
        target=move.target,
        epoch=move.epoch,
        why=move.why,
        strategy=str(move.strategy),
        step=move.step,
        active=not move.step.ended,
        elapsed_s=round(until_s - move.begun_s, 3),
        paused_s=_paused_s(move),
        stalled=_stalled(facts, move, report),
        progress=report.migration if report is not None and report.epoch == move.epoch else None,
    )


def _paused_s(move: Move) -> float | None:
    if Step.RUNNING not in move.times:
        return None
    return round(move.times[Step.RUNNING] - move.times[Step.COMMITTED], 3)


def _stalled(facts: Facts, move: Move, report: TaskReport | None) -> str | None:
    if report is not None and report.migration is not None and report.migration.get("stalled"):
        return str(report.migration["stalled"])
    waited_s = facts.now_s - move.since_s
    if move.step is Step.RELEASED and waited_s >= RUN_PATIENCE_S:
        state = report.state if report is not None else "silent"
        return f"{move.target} does not run it after {waited_s:.0f} s ({state})"
    if move.step is Step.COMMITTED and waited_s >= facts.limits.release_timeout_s:
        return f"{move.source} has not released it after {waited_s:.0f} s"
    return None
