"""What operators are shown by the coordinator: stages, replicas, tasks, moves."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from towpath.coordinator.messages import LayerField, MannerField, Message


class TaskStatus(Message):
    """A task as the control log and its owner tell it.

    Attributes:
        task: stage/partition.
        stage: the stage.
        partition: the partition.
        owner: by the log; None: not assigned yet.
        epoch: of the newest assignment.
        state: the owner's word; "unassigned", "silent" where it says nothing.
        complete: whether the owner has all of the task's state.
        layers: copies that it still takes state from.
        waits_for: former owners that may still be at work.
        moving_to: replica that it is about to be moved to.
        step: where that move stands.
        lag: input offsets not read yet, as of the owner's newest fetch; None: unknown.
        committed_lag: the same of those that are not committed yet.
        migration: progress of its state.
    """

    task: str
    stage: str
    partition: int
    owner: str | None
    epoch: int
    state: str
    complete: bool
    layers: list[LayerField] = Field(default_factory=list)
    waits_for: list[str] = Field(default_factory=list)
    moving_to: str | None = None
    step: str | None = None
    lag: int | None = None
    committed_lag: int | None = None
    migration: dict[str, Any] | None = None


class MigrationStatus(Message):
    """A move of a task, or one that has ended lately.

    Attributes:
        task: stage/partition.
        stage: the stage.
        partition: the partition.
        source: former owner.
        target: new owner.
        epoch: the new owner's.
        why: scale, drain, asked for, or the failure.
        strategy: how the state travels.
        step: prepare, committed, released, running, done; dropped, superseded; copy: no move, a standby copy is made.
        active: whether it still goes on.
        elapsed_s: since it began; of one that has ended: how long it took.
        paused_s: from its commit until the new owner said that it runs, to a heartbeat's precision; None: not yet.
        stalled: what it is stuck in; None: it goes on.
        progress: what the new owner says of the state: hot keys, bins, records, bytes, rate, …; of a move that has
            ended what it said last, with the seconds of its own ``phases``.
        left_s: how long the rest of it will take as fast as it comes now; None: can't be told.
        begun_ago_s: seconds since it began.
        phases: phase that is over → its seconds: prepare, release, take_over, background.
    """

    task: str
    stage: str
    partition: int
    source: str
    target: str
    epoch: int
    why: str
    strategy: str
    step: str
    active: bool
    elapsed_s: float
    paused_s: float | None = None
    stalled: str | None = None
    progress: dict[str, Any] | None = None
    left_s: float | None = None
    begun_ago_s: float | None = None
    phases: dict[str, float] = Field(default_factory=dict)


class ReplicaStatus(Message):
    """A replica.

    Attributes:
        stage: its stage.
        replica: its name.
        phase: as it said last; "silent" when it has not been heard, "dead" when it was reported so.
        member: whether it is to own tasks.
        draining: it wants to leave.
        tasks: partitions that the log assigns to it.
        heard_s: seconds since its last heartbeat; None: never.
        state_address: of its state manager.
        http_address: of its health and metrics.
    """

    stage: str
    replica: str
    phase: str
    member: bool
    draining: bool
    tasks: list[int]
    heard_s: float | None
    state_address: str = ""
    http_address: str = ""


class StageStatus(Message):
    """A stage.

    Attributes:
        stage: its name.
        partitions: how many tasks it has.
        stateful: whether it keeps state.
        desired: how many replicas shall own tasks; None: all.
        manner: how state travels.
        members: replicas that are to own tasks.
        moves: moves under way until the new owner runs the task.
        incomplete: tasks whose owner still needs another's copy of the state.
        settled: as many replicas as wanted are there, and every task runs where it should.
        waiting_for: what is missing to that, in words; None: nothing.
    """

    stage: str
    partitions: int
    stateful: bool
    desired: int | None
    manner: MannerField
    members: list[str]
    moves: int
    incomplete: int
    settled: bool
    waiting_for: str | None = None


class Topology(Message):
    """The whole application."""

    app: str
    term: int
    leading: bool
    stages: list[StageStatus]
    replicas: list[ReplicaStatus]


class Health(Message):
    """Whether the coordinator lives and leads.

    Attributes:
        problem: what keeps it from deciding.
        stalled: moves that have stalled, with what they are stuck in; that is no illness of the coordinator's own.
    """

    app: str
    name: str
    term: int
    leading: bool
    problem: str | None = None
    stalled: list[str] = Field(default_factory=list)
