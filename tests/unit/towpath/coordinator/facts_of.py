"""Facts for tests of pure decisions: a control log and heartbeats, written down in a line each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from statemgr.control.records import (
    Assigned,
    ControlRecord,
    Desired,
    Done,
    Fenced,
    Layer,
    Manner,
    Released,
    Strategy,
    Tenure,
    control_key,
    encode_control,
)
from statemgr.control.view import ControlView
from statemgr.types import TaskId
from towpath.coordinator.facts import Facts, StageFacts, observe_waits
from towpath.coordinator.fleet import Fleet
from towpath.coordinator.limits import Limits
from towpath.coordinator.messages import Heartbeat, TaskEpoch, TaskReport
from towpath.coordinator.moves import Moves
from towpath.coordinator.platform import NO_PLATFORM, Platform

STAGE = "count"
LIMITS = Limits()


def view_of(*records: ControlRecord) -> ControlView:
    view = ControlView()
    for offset, record in enumerate(records):
        view.apply(offset, control_key(record), encode_control(record))
    return view


def assigned(
    partition: int,
    epoch: int,
    owner: str,
    waits_for: Sequence[tuple[str, int]] = (),
    layers: Sequence[tuple[str, int]] = (),
) -> Assigned:
    return Assigned(
        STAGE,
        partition,
        epoch,
        owner,
        tuple(Tenure(name, number) for name, number in waits_for),
        tuple(Layer(name, number) for name, number in layers),
        Manner(),
        1,
    )


def released(partition: int, epoch: int, owner: str, *, started: bool = True) -> Released:
    return Released(STAGE, partition, epoch, owner, started=started, offset=7, progress=None)


def done(partition: int, epoch: int, owner: str) -> Done:
    return Done(STAGE, partition, epoch, owner)


def fenced(replica: str) -> Fenced:
    return Fenced(STAGE, replica, 1)


def desired(replicas: int | None, strategy: Strategy = Strategy.HYBRID) -> Desired:
    return Desired(STAGE, replicas, Manner(strategy=strategy), 1)


def beat(
    *,
    runs: Mapping[int, int] | None = None,
    ready: Mapping[int, int] | None = None,
    incarnation: str = "1",
    **said: Any,
) -> Heartbeat:
    """A heartbeat of a replica that has read all of the log; partition → epoch."""
    reports = [
        TaskReport(partition=partition, epoch=epoch, state="running", complete=True)
        for partition, epoch in (runs or {}).items()
    ]
    prepared = [TaskEpoch(partition=partition, epoch=epoch) for partition, epoch in (ready or {}).items()]
    return Heartbeat(**{"control_offset": 1000, **said}, incarnation=incarnation, tasks=reports, ready=prepared)


class Scene:
    """Facts in the making: replicas that were heard ``ago`` seconds before now, and joined long ago."""

    def __init__(self, *records: ControlRecord, partitions: int = 4, stateful: bool = True) -> None:
        self.view = view_of(*records)
        self.now_s = 1000.0
        self.fleet = Fleet(begun_s=0.0)
        self.moves = Moves()
        self.pins: dict[TaskId, str] = {}
        self.stand_ins: dict[TaskId, str] = {}
        self.platform: Platform = NO_PLATFORM
        self.waiting_since_s = self.now_s
        self.stages = {STAGE: StageFacts(STAGE, partitions, stateful)}

    def heard(self, replica: str, said: Heartbeat | None = None, *, ago: float = 0.1, joined: float = 100.0) -> Scene:
        said = said or beat()
        self.fleet.hear(STAGE, replica, said, self.now_s - joined)
        self.fleet.hear(STAGE, replica, said, self.now_s - ago)
        return self

    def all_heard(self, *replicas: str) -> Scene:
        for replica in replicas:
            self.heard(replica)
        return self

    def facts(self) -> Facts:
        return Facts(
            view=self.view,
            fleet=self.fleet,
            stages=self.stages,
            moves=self.moves,
            pins=self.pins,
            stand_ins=self.stand_ins,
            waits=observe_waits(self.view, {}, self.waiting_since_s),
            term=1,
            now_s=self.now_s,
            limits=LIMITS,
            platform=self.platform,
        )


def task(partition: int) -> TaskId:
    return TaskId(STAGE, partition)
