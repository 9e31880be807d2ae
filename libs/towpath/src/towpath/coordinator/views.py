"""What operators are shown: pure, from the facts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from statemgr.types import TaskId
from towpath.coordinator.decide import targets
from towpath.coordinator.facts import Facts, StageFacts
from towpath.coordinator.fleet import Presence
from towpath.coordinator.messages import TaskReport
from towpath.coordinator.moves import Move, Step, runs
from towpath.coordinator.placement import natural
from towpath.coordinator.progress import figure, said_by, seconds_left
from towpath.coordinator.readiness import is_ready, patience_s
from towpath.coordinator.statuses import MigrationStatus, ReplicaStatus, StageStatus, TaskStatus, Topology

PATIENCE_S = 30.0
"""A move is shown as stalled when for so long neither a step of it nor any state has been heard to come: opening a
store takes a second, and a long copy or replay says with each heartbeat how far it is."""


def report_of(facts: Facts, task: TaskId) -> TaskReport | None:
    """What the task's owner says of it under its present epoch."""
    known = facts.view.of(task)
    if facts.presence(task.stage, known.owner or "") is not Presence.PRESENT:
        return None
    return said_by(facts.fleet, known.owner or "", task, known.epoch)


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
        committed_lag=report.committed_lag if report is not None else None,
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
        incomplete=incomplete(facts, stage),
        settled=missing is None,
        waiting_for=missing,
    )


def incomplete(facts: Facts, stage: StageFacts) -> int:
    """How many tasks have an owner that still needs another's copy of the state."""
    known = (facts.view.of(task) for task in stage.tasks)
    return sum(task.owner is not None and not task.complete for task in known)


class StageLag(NamedTuple):
    """Input offsets of a stage that are not read, and not committed, as owners said last; tasks that say nothing."""

    read: int
    committed: int
    unheard: int


def stage_lag(facts: Facts, stage: StageFacts) -> StageLag:
    """How far a stage is behind its inputs."""
    said = {
        (name, report.partition, report.epoch): report
        for name, heard in facts.fleet.of_stage(stage.name)
        if facts.presence(stage.name, name) is Presence.PRESENT
        for report in heard.beat.tasks
    }
    tasks = [(facts.view.of(task), task.partition) for task in stage.tasks]
    owned = [(newest.owner or "", partition, newest.epoch) for newest, partition in tasks]
    known = [report for at in owned if (report := said.get(at)) is not None and report.lag is not None]
    return StageLag(
        sum(report.lag or 0 for report in known),
        sum(report.committed_lag or 0 for report in known),
        len(owned) - len(known),
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
    """Moves under way, standby copies that are being made, then moves that have ended, newest first."""
    ended = sorted(facts.moves.ended, key=lambda move: -move.since_s)
    return [*_under_way(facts), *(_migration_status(facts, move) for move in ended)]


def stalled_moves(facts: Facts) -> list[MigrationStatus]:
    """Those that are stuck; what has ended is not looked at."""
    return [move for move in _under_way(facts) if move.stalled]


def _under_way(facts: Facts) -> Iterator[MigrationStatus]:
    for move in sorted(facts.moves, key=lambda move: move.task):
        yield _migration_status(facts, move)
    yield from _standby_copies(facts)


def _missing(facts: Facts, stage: StageFacts) -> Iterator[str]:
    """What is missing until the stage is as it should be."""
    members, desired = facts.members(stage.name), facts.desired(stage.name)
    if facts.platform.problem and facts.asked(stage.name) is not None:
        yield facts.platform.problem
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
    report = _report_of_target(facts, move)
    progress = report.migration if report is not None else None
    ended = move.progress if move.step.ended else None
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
        progress=progress if ended is None else dict(ended),
        left_s=seconds_left(progress or {}),
        begun_ago_s=round(facts.now_s - move.begun_s, 3),
        phases={name: round(seconds, 3) for name, seconds in move.phases.items()},
    )


def _report_of_target(facts: Facts, move: Move) -> TaskReport | None:
    there = facts.presence(move.task.stage, move.target) is Presence.PRESENT
    return move.report(facts.fleet) if there and not move.step.ended else None


def _standby_copies(facts: Facts) -> Iterator[MigrationStatus]:
    """Copies that are being made though no move waits for them."""
    for task, stand_in in sorted(facts.stand_ins.items()):
        known = facts.view.of(task)
        report = said_by(facts.fleet, stand_in, task, known.epoch + 1, copy=True)
        if report is None or task in facts.moves.prepared:
            continue
        progress = report.migration or {}
        yield MigrationStatus(
            task=str(task),
            stage=task.stage,
            partition=task.partition,
            source=known.owner or "",
            target=stand_in,
            epoch=report.epoch,
            why="standby",
            strategy="standby",
            step="copy",
            active=True,
            elapsed_s=round(figure(progress, "elapsed_s") or 0.0, 3),
            stalled=_said_stalled(progress),
            progress=progress,
            left_s=seconds_left(progress),
        )


def _paused_s(move: Move) -> float | None:
    if Step.RUNNING not in move.times:
        return None
    return round(move.times[Step.RUNNING] - move.times[Step.COMMITTED], 3)


def _said_stalled(progress: Mapping[str, Any]) -> str | None:
    return str(progress["stalled"]) if progress.get("stalled") else None


def _stalled(facts: Facts, move: Move, report: TaskReport | None) -> str | None:
    """What the move is stuck in: by the target's own word, or because neither it nor its state comes on."""
    progress = (report.migration if report is not None else None) or {}
    if said := _said_stalled(progress):
        return said
    waited_s, still_s = facts.now_s - move.since_s, facts.now_s - move.still_since_s
    if move.step is Step.COMMITTED and waited_s >= facts.limits.release_timeout_s:
        return f"{move.source} has not released it after {waited_s:.0f} s"
    if still_s < PATIENCE_S:
        return None
    if move.step is Step.PREPARE and is_ready(facts, move):
        return f"prepared, but not logged for {still_s:.0f} s; the coordinator's log and /health say why"
    phase = "silent" if report is None else progress.get("phase") or report.state
    nothing = f"and nothing has come for {still_s:.0f} s ({phase})"
    if move.step is Step.PREPARE:
        return f"{move.target} has not prepared it, {nothing}; it moves without after {patience_s(facts, move):.0f} s"
    return f"{move.target} does not run it, {nothing}" if move.step is Step.RELEASED else None
