"""The copies that are open for reading: opened when somebody asks, closed when nobody has for a while."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from statemgr.clock import Clock
from statemgr.errors import (
    CodecError,
    CorruptStoreError,
    HolderUnavailableError,
    IncompatibleStoreError,
    NoSuchCopyError,
)
from statemgr.sidecar.readers import ReaderBackend, StoreReader
from statemgr.types import TaskId

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(eq=False)
class _Slot:
    lock: threading.Lock = field(default_factory=threading.Lock)
    reader: StoreReader | None = None
    used_s: float = 0.0

    def close(self) -> None:
        """Forget the reader, even where RocksDB, which raises bare exceptions, can't close it."""
        reader, self.reader = self.reader, None
        try:
            if reader is not None:
                reader.close()
        except Exception as error:  # noqa: BLE001 - the next one opens the copy anew, and names what is wrong with it
            log.warning("a copy can't be closed: %s: %s", type(error).__name__, error)


class OpenCopies:
    """Gives each copy to one thread at a time.

    Args:
        readers: opens them.
        clock: time.
    """

    def __init__(self, readers: ReaderBackend, clock: Clock) -> None:
        self._readers = readers
        self._clock = clock
        self._slots: dict[tuple[TaskId, int], _Slot] = {}
        self._lock = threading.Lock()

    def use(self, task: TaskId, epoch: int, deadline_s: float, work: Callable[[StoreReader], T]) -> T:
        """Do something with a copy, which is opened if need be.

        A copy that can't be read is opened anew once: its owner may have replaced files at the wrong moment.

        Raises:
            HolderUnavailableError: others kept it busy until the deadline.
            NoSuchCopyError: there is none, or it can't be read.
        """
        slot = self._taken(task, epoch, deadline_s)
        try:
            try:
                return work(self._opened(slot, task, epoch))
            except CorruptStoreError:
                slot.close()
                return work(self._opened(slot, task, epoch))
        except (CorruptStoreError, IncompatibleStoreError, CodecError) as error:
            slot.close()
            raise NoSuchCopyError(str(error)) from error
        except NoSuchCopyError:
            slot.close()
            raise
        finally:
            slot.used_s = self._clock.monotonic_s()
            slot.lock.release()

    def asked_s(self, task: TaskId, epoch: int) -> float:
        """Monotonic time of the latest use of a copy; -inf: none for long."""
        with self._lock:
            slot = self._slots.get((task, epoch))
        return slot.used_s if slot is not None else float("-inf")

    def close_unused(self, for_s: float) -> None:
        """Close those that nobody has asked for that long."""
        limit = self._clock.monotonic_s() - for_s
        for key, slot in self._all():
            if slot.used_s <= limit and slot.lock.acquire(blocking=False):
                self._drop(key, slot)

    def destroy(self, task: TaskId, epoch: int, timeout_s: float) -> None:
        """Close a copy, and delete it.

        Raises:
            HolderUnavailableError: others kept it busy until the deadline.
            StoreLockedError: the replica has it open.
        """
        slot = self._taken(task, epoch, self._clock.monotonic_s() + timeout_s)
        try:
            slot.close()
            self._readers.destroy(task, epoch)
        finally:
            self._drop((task, epoch), slot)

    def close(self, timeout_s: float) -> None:
        """Close all; one that is busy beyond the deadline is left to the end of the process."""
        for key, slot in self._all():
            if slot.lock.acquire(timeout=timeout_s):
                self._drop(key, slot)

    def _all(self) -> list[tuple[tuple[TaskId, int], _Slot]]:
        with self._lock:
            return list(self._slots.items())

    def _opened(self, slot: _Slot, task: TaskId, epoch: int) -> StoreReader:
        if slot.reader is not None and not slot.reader.is_current():
            slot.close()
        if slot.reader is None:
            slot.reader = self._readers.open(task, epoch)
        return slot.reader

    def _taken(self, task: TaskId, epoch: int, deadline_s: float) -> _Slot:
        """The copy's slot with its lock held; one that was dropped while this waited is left for its successor."""
        while True:
            with self._lock:
                slot = self._slots.setdefault((task, epoch), _Slot())
            left_s = deadline_s - self._clock.monotonic_s()
            if not slot.lock.acquire(timeout=max(0.0, left_s)):
                raise HolderUnavailableError(f"copy {task}@{epoch} was busy with other requests until the deadline")
            with self._lock:
                if self._slots.get((task, epoch)) is slot:
                    return slot
            slot.lock.release()

    def _drop(self, key: tuple[TaskId, int], slot: _Slot) -> None:
        """Close a slot whose lock is held, forget it, and free the lock."""
        with self._lock:
            if self._slots.get(key) is slot:
                del self._slots[key]
        try:
            slot.close()
        finally:
            slot.lock.release()
