"""The code of faults in progress, ownership and event time; :mod:`tests.simulation.mutations` switches them on."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from typing import Any

from statemgr.control import view
from statemgr.control.records import Fenced
from statemgr.control.view import TaskView
from statemgr.kafka.ports import Bounds
from statemgr.progress import InputProgress
from statemgr.testing.consumer import FakeConsumer
from statemgr.types import Position, TopicPartition
from statemgr.watermarks import IDLE, NEVER, REACHED, Watermarks
from tests.simulation.application import Arrived, Counting, TaskWork
from towpath.coordinator.actions import Actions
from towpath.stage.coordinated import Coordinated
from towpath.stage.parking import Parking
from towpath.stage.past import Past
from towpath.stage.phases import Phase
from towpath.stage.replica import Replica

# --- progress and rows (R1) ---

_progress = Parking.progress


def progress_without_parked(self: Parking, topic: str, position: int, topic_id: str = "") -> InputProgress:
    """The lowest incomplete offset alone, as ordinary group offsets have it."""
    low = _progress(self, topic, position, topic_id).low
    return InputProgress(low=low, high=low, topic_id=topic_id)


def admits_by_offset(self: Past, key: bytes, position: Position) -> bool:
    """A record is undone as a whole if one of its rows is."""
    return position.offset >= self.high or any(position.offset == first.offset for first in self.parked.values())


# --- ends, fences, ownership (R3, R4, R6) ---


def stable_bounds(self: FakeConsumer, partition: TopicPartition) -> Bounds:
    """The last stable offset for the end."""
    self._cluster.pass_time()
    log = self._cluster.log(partition)
    return Bounds(log.bounds.start, log.last_stable)


def fence_first(self: Actions, decisions: Any, term: int) -> None:
    """Fence, say so, and only then the intent."""
    for decision in decisions:
        self._fencer.fence(decision.stage, decision.replica)
        self._writer.write([Fenced(decision.stage, decision.replica, term)])
        if decision.records:
            self._assign(decision.records, "failure")


_has_ended = view.has_ended


def ended_by_any_fence(tenure: Any, known: TaskView, fenced: Any, stage: str) -> bool:
    """A fence counts wherever it lies in the log."""
    return (stage, tenure.owner) in fenced or _has_ended(tenure, known, fenced, stage)


OLD_VIEW_S = 0.3
"""How long a replica goes by what it read before its init, which takes half of that."""

_start, _read_log = Replica.start, Coordinated._read_log


def start_after_reading(self: Replica) -> None:
    """The log is read, and then the fence comes."""
    if self._coordinated is not None:
        _read_log(self._coordinated, self._controls.stopping, self._controls.pause, self._settings.wait_s)
        self._controls.pause(OLD_VIEW_S / 2)
    _start(self)


def read_nothing(self: Coordinated, *args: Any) -> None:
    """What was read before the fence has to do."""
    self._began_s = None  # type: ignore[attr-defined]


_turn = Coordinated.turn


def turn_by_what_was_read(self: Coordinated, *args: Any) -> Any:
    """Tasks are begun by what was read before the fence; the log is looked at again after a while."""
    control, now_s = self._control, self._clock.monotonic_s()
    if self._began_s is None:  # type: ignore[attr-defined]
        self._began_s = now_s  # type: ignore[attr-defined]
    if now_s - self._began_s >= OLD_VIEW_S:  # type: ignore[attr-defined]
        return _turn(self, *args)
    poll = control.poll
    control.poll = lambda timeout_s=0.0: []  # type: ignore[method-assign]
    try:
        return _turn(self, *args)
    finally:
        control.poll = poll  # type: ignore[method-assign]


def drop_nothing(self: Replica, cause: str) -> None:
    """Only the producer is dropped."""
    self._machine.to(Phase.FENCING)
    self._kept = dict(self._tasks)  # type: ignore[attr-defined]
    self._transactor.close()


def start_with_kept(self: Replica) -> None:
    """After the fence the replica goes on with what it had."""
    _start(self)
    for partition, task in getattr(self, "_kept", {}).items():
        self._tasks[partition] = task
        self._consumer.add(task.reads_from())
    if self._topics is not None:
        self._processor.own(self._tasks, self._topics)


# --- event time (R14) ---


def minimum_without_the_silent(self: Watermarks) -> int:
    """An upstream task whose mark is not among the last three is taken for idle."""
    marks = [before for _, _, before in self._trail[-3:]] + [self._now]
    spoken = {name for before, after in pairwise(marks) for name in after if before[name] != after[name]}
    return min((mark for name, mark in self._now.items() if name in spoken - {REACHED} and mark != IDLE), default=NEVER)


_count = Counting._count


def count_and_judge(self: Counting, work: TaskWork, rows: Sequence[Arrived]) -> None:
    """Lateness is judged when a row is processed, however long it was parked."""
    _count(self, work, [row._replace(late=work.marks.late(row.row.event_ms)) for row in rows])


_advance_out = Watermarks.advance_out


def advance_unheld(self: Watermarks, held: Collection[int] = ()) -> int | None:
    """Parked rows hold nothing."""
    return _advance_out(self)
