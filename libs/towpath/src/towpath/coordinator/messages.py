"""What replicas, state managers and operators say to the coordinator, and what it answers.

All of it is hints: ownership is decided by the control log alone (R3, R19). So unknown fields are passed over, which
lets replicas and coordinator of neighbouring versions work together; only what an operator asks for is strict.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from statemgr.control.records import Layer, Manner
from towpath.coordinator.structs import StructField

LayerField = Annotated[Layer, StructField()]
MannerField = Annotated[Manner, StructField()]


class Message(BaseModel):
    """Something that is said between parts of an application; what it has beyond the fields is passed over."""

    model_config = ConfigDict(frozen=True, extra="ignore")


MOST_REPLICAS = 1000
"""Of a stage; a launcher starts as many as are asked for."""


NAME_LENGTH = 100
"""Most characters of a stage's or replica's name in a request."""

Name = Annotated[str, Field(max_length=NAME_LENGTH)]


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class TaskReport(Message):
    """A task at its owner, or a copy of its state that is being made.

    Attributes:
        partition: the task's partition.
        epoch: under which it is or will be run.
        state: "running", or what it waits for: "waiting", "asking", "opening", "filling"; of a copy "copying".
        complete: whether it needs no other's copy.
        migration: progress of its state, for display: see :mod:`towpath.coordinator.progress`; None: nothing under way.
        lag: input offsets not read yet, as of the newest fetch; None: unknown, as it is before the task runs.
        committed_lag: the same of those that are not committed yet.
        moved: what a hand-over came to whose state is all here: what ``migration`` said last, and ``phases``, the
            seconds of each; told for some seconds.
    """

    partition: int
    epoch: int
    state: str
    complete: bool
    migration: dict[str, Any] | None = None
    lag: int | None = None
    committed_lag: int | None = None
    moved: dict[str, Any] | None = None


class ReplicaFigures(Message):
    """What a replica has done since it began, for display.

    Attributes:
        records: Kafka records read.
        rows: rows decoded from them.
        output_rows: rows written to outputs.
        stage_latency: counts of the buckets of :mod:`towpath.distributions`: append of a record until its commit.
        end_to_end: the same of rows of sinks: intended emit time until their commit.
    """

    records: int = 0
    rows: int = 0
    output_rows: int = 0
    stage_latency: list[int] = Field(default_factory=list)
    end_to_end: list[int] = Field(default_factory=list)


class TaskEpoch(Message):
    """A task under one epoch."""

    partition: int
    epoch: int


class Heartbeat(Message):
    """What a replica says of itself, four times a second.

    Attributes:
        incarnation: this life of its process.
        state_address: host:port of its state manager; empty: it has none.
        http_address: host:port of its health and metrics.
        phase: where it stands.
        draining: it was asked to stop and wants to be rid of its tasks.
        control_offset: up to where it has read the control log.
        tasks: those it runs, and those on their way to it.
        ready: tasks that it has prepared for.
        copies: those whose state it copies before they come, if they ever do.
        figures: what it has done; None: it does not say.
    """

    incarnation: str
    state_address: str = ""
    http_address: str = ""
    phase: str = "running"
    draining: bool = False
    control_offset: int = 0
    tasks: list[TaskReport] = Field(default_factory=list)
    ready: list[TaskEpoch] = Field(default_factory=list)
    copies: list[TaskReport] = Field(default_factory=list)
    figures: ReplicaFigures | None = None


class Prepare(Message):
    """A hint: this task will probably come to you under this epoch, with its state in these layers.

    ``trace``: the trace context of its hand-over; empty: it is not traced, or no move is planned.
    """

    partition: int
    epoch: int
    layers: list[LayerField] = Field(default_factory=list)
    manner: MannerField = Field(default_factory=Manner)
    trace: str = ""


class HeartbeatAnswer(Message):
    """What a replica is told.

    Attributes:
        term: the coordinator's; a lower one than the log's is void.
        prepare: tasks that will probably come.
        alert_s: look at the control log often for this long, and keep transactions short (R16).
        hurry: partitions whose background state is to be fetched now, whatever the pacing: their holder wants to leave.
        holders: name → address of the state manager of every replica that has one.
        drained: every task has been moved away and released: a draining replica may end.
        known: whether the coordinator leads and knows this replica's stage; if not, nothing else here means anything.
    """

    term: int
    prepare: list[Prepare] = Field(default_factory=list)
    alert_s: float = 0.0
    hurry: list[int] = Field(default_factory=list)
    holders: dict[str, str] = Field(default_factory=dict)
    drained: bool = False
    known: bool = True


class HolderBeat(Message):
    """What a state manager says of itself, once a second."""

    address: str


class ScaleRequest(_Request):
    """How many replicas of a stage shall own tasks, and how state shall travel.

    Attributes:
        stage: which.
        replicas: how many own tasks; left out: as before; None: all that there are.
        manner: how state travels; None: as before.
    """

    stage: Name
    replicas: int | None = Field(default=None, ge=1, le=MOST_REPLICAS)
    manner: MannerField | None = None


class MoveRequest(_Request):
    """One task to one replica."""

    stage: Name
    partition: int = Field(ge=0)
    replica: Name


class Refused(Message):
    """A request was not taken.

    Attributes:
        detail: the reason, one line.
    """

    detail: str


class Accepted(Message):
    """A request was taken.

    Attributes:
        term: the coordinator's.
        moves: how many tasks are to move now for it.
    """

    term: int
    moves: int = 0
