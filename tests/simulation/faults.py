"""The code of the faults that :mod:`tests.simulation.mutations` switches on."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

from statemgr import decisions
from statemgr.changelog.tail import Tail
from statemgr.control import view
from statemgr.control.records import Assigned, Fenced
from statemgr.control.view import TaskView
from statemgr.errors import StaleRequestError
from statemgr.kafka.ports import Bounds
from statemgr.layout import store_key
from statemgr.migration.layered import LayeredStore
from statemgr.migration.ports import Address
from statemgr.progress import InputProgress
from statemgr.sidecar import answers, authority
from statemgr.state import TaskState
from statemgr.store.base import Store
from statemgr.testing.consumer import FakeConsumer
from statemgr.types import Position, TopicPartition
from statemgr.watermarks import IDLE, NEVER, REACHED, Watermarks
from tests.simulation.application import Arrived, Counting, TaskWork
from tests.simulation.invariants import SECOND
from towpath.coordinator.actions import Actions
from towpath.stage.coordinated import Coordinated
from towpath.stage.opening import Opening
from towpath.stage.parking import Parking
from towpath.stage.past import Past
from towpath.stage.phases import Phase
from towpath.stage.replica import Replica
from towpath.stage.transaction import Transactor

__all__ = [
    "Actions",
    "Coordinated",
    "Counting",
    "FakeConsumer",
    "LayeredStore",
    "Opening",
    "Parking",
    "Past",
    "Replica",
    "Tail",
    "TaskState",
    "TaskView",
    "Transactor",
    "Watermarks",
    "answers",
    "authority",
    "decisions",
    "view",
]

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


def fence_first(self: Actions, decision: Any, term: int) -> None:
    """Fence, say so, and only then the intent."""
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


# --- copies and messages (R7, R8) ---

complete_once = property(lambda self: self.done is not None)
"""Any owner's word that it is done counts for the present one."""


def check_no_target(known: TaskView | None, address: Address, name: str) -> None:
    """Whoever asks is answered."""
    if known is None or known.assigned is None:
        raise StaleRequestError(f"{address.task} is not known here yet", later=True)


def no_such_tombstone(key: bytes) -> bytes:
    """A place at which there is nothing."""
    return key[:1] + b"\xff\xfd" + key[1:]


def not_empty(self: Opening, assigned: Assigned) -> Store:
    """A directory by task alone: what an earlier epoch has left in it is still there."""
    prepared = self._prepared.pop((assigned.task, assigned.epoch), None)
    if prepared is not None:
        prepared.close()
    self._backend.destroy(assigned.task, assigned.epoch)
    older = [epoch for epoch in self._backend.existing(assigned.task) if epoch < assigned.epoch]
    if older:
        self._backend.fork(assigned.task, older[-1], assigned.epoch)
    return self._backend.open(assigned.task, assigned.epoch)


# --- restore and bases (R10, R12) ---

_add = Tail.add


def add_if_absent(self: Tail, offset: int, key: bytes | None, value: bytes | None) -> None:
    """A tail that respects what is there, as bins from elsewhere must."""
    if key is not None and len(key) > 2 and (store_key(key) in self._chunk or self.store.get_many([store_key(key)])[0]):
        self.next = max(self.next, offset + 1)
        return
    _add(self, offset, key, value)


def never_foreign(meta: Any, log: Any, epoch: int) -> str | None:
    """A store of another topic will do."""
    return None


def never_too_old(meta: Any, log: Any, bounds: Bounds, now_ms: int) -> str | None:
    """A store of any age will do."""
    if meta.offset + 1 < bounds.start:
        return "the log starts behind it"
    return None


# --- cache (R11) ---

_changes = TaskState.changes


def changes_written_early(self: TaskState) -> Any:
    """What the transaction has still to commit is in the store already."""
    found = _changes(self)
    self._store.put_raw([(store_key(key), value) for key, value in found])
    return found


@contextmanager
def kept_caches() -> Iterator[None]:
    """What a task's cache held is there again when the task is opened again after an abort."""
    kept: dict[tuple[int, Any], dict[str, dict[bytes, Any]]] = {}
    init, discard = TaskState.__init__, TaskState.discard

    def begin(self: TaskState, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        for name, entries in kept.pop((_disk_of(self._store), (self.task, self.epoch)), {}).items():
            self._tables[name]._young = entries

    def keep(self: TaskState) -> None:
        entries = {name: dict(table._young) for name, table in self._tables.items()}
        kept.setdefault((_disk_of(self._store), (self.task, self.epoch)), entries)
        discard(self)

    TaskState.__init__, TaskState.discard = begin, keep  # type: ignore[method-assign]
    try:
        yield
    finally:
        TaskState.__init__, TaskState.discard = init, discard  # type: ignore[method-assign]


def _disk_of(store: Any) -> int:
    return id(getattr(store, "local", store)._disk)


@contextmanager
def swapped_commits() -> Iterator[None]:
    """Two producers in turn; the transaction of the one is committed after the next one of the other."""
    commit, close = Transactor.commit, Transactor.close

    def commit_later(self: Any, *args: Any, **kwargs: Any) -> None:
        producer = self._producer
        late = getattr(self, "_late", None)
        self._producer = _Deferred(producer)
        try:
            commit(self, *args, **kwargs)
        finally:
            self._producer = producer
        if late is None:
            self._late = producer
            self._producer = _second(self)
        else:
            producer.commit(1.0)
            late.commit(1.0)
            self._late = None

    def close_both(self: Any) -> None:
        late = getattr(self, "_late", None)
        if late is not None:
            late.close()
            self._late = None
        close(self)

    Transactor.commit, Transactor.close = commit_later, close_both  # type: ignore[method-assign]
    try:
        yield
    finally:
        Transactor.commit, Transactor.close = commit, close  # type: ignore[method-assign]


def _second(self: Any) -> Any:
    """A producer of its own id, so that the first one's transaction stays open."""
    producer = self._kafka.producer(transactional_id=self._id + SECOND, name=self._replica)
    producer.init_transactions(1.0)
    return producer


class _Deferred:
    """A producer whose commit is somebody else's business."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def commit(self, timeout_s: float) -> None:
        """Later."""


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


# --- bins (R9) ---


def mark_then_install(self: LayeredStore, first: int, last: int, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
    """The bins are said to be complete, and then their data comes."""
    known = set(self._arriving.of(first, last))
    if entries:
        self.complete_bins(first, last)
        self._put_arrived([pair for pair in entries if pair[0] not in known and pair[1] is not None])
