"""The code of faults in copies, bases, caches and bins; :mod:`tests.simulation.mutations` switches them on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from statemgr.changelog.tail import Tail
from statemgr.control.records import Assigned
from statemgr.control.view import ControlView, TaskView
from statemgr.errors import StaleRequestError
from statemgr.kafka.ports import Bounds, Message
from statemgr.layout import store_key
from statemgr.migration.layered import LayeredStore
from statemgr.migration.ports import Address
from statemgr.state import TaskState
from statemgr.store.base import Store, StoreMeta
from statemgr.types import TaskId
from tests.simulation.invariants import SECOND
from towpath.stage.opening import Opening
from towpath.stage.transaction import Transactor

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


def add_if_absent(self: Tail, messages: Sequence[Message]) -> None:
    """A tail that respects what is there, as bins from elsewhere must."""
    for message in messages:
        key = message.key()
        if key is not None and len(key) > 2 and _is_there(self, key):
            self.next = max(self.next, message.offset() + 1)
        else:
            _add(self, [message])


def _is_there(tail: Tail, key: bytes) -> bool:
    return store_key(key) in tail._chunk or tail.store.get_many([store_key(key)])[0] is not None


def never_foreign(meta: Any, log: Any, epoch: int) -> str | None:
    """A store of another topic will do."""
    return None


def never_too_old(meta: Any, log: Any, bounds: Bounds, now_ms: int) -> str | None:
    """A store of any age will do."""
    if meta.offset + 1 < bounds.start:
        return "the log starts behind it"
    return None


# --- reads (R15) ---


def always_whole(meta: StoreMeta | None, *, unfinished: bool) -> bool:
    """Whatever is there."""
    return True


def claimed_by_the_log(view: ControlView, task: TaskId, epoch: int, meta: StoreMeta | None, replica: str) -> bool:
    """An owner that was complete once is so for ever."""
    known = view.tasks.get(task)
    return known is not None and known.complete and (known.epoch, known.owner) == (epoch, replica)


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


# --- lists ---


def no_rest(*args: Any) -> dict[bytes, list[bytes]]:
    """A list whose head is here is here."""
    return {}


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


# --- bins (R9) ---


def mark_then_install(self: LayeredStore, first: int, last: int, entries: Sequence[tuple[bytes, bytes | None]]) -> None:
    """The bins are said to be complete, and then their data comes."""
    known = set(self._arriving.of(first, last))
    if entries:
        self.complete_bins(first, last)
        self._put_arrived([pair for pair in entries if pair[0] not in known and pair[1] is not None])
