"""The RocksDB stores of one replica: one directory per task and epoch, one memory budget for all."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from rocksdict import Options, Rdict, WriteOptions

from statemgr.errors import StopRequestedError, StoreLockedError
from statemgr.layout import store_directory
from statemgr.store import directories
from statemgr.store.base import Store
from statemgr.store.rocks import RocksStore
from statemgr.store.rocks_errors import is_lock, open_error, write_error
from statemgr.store.rocks_options import RocksSettings, SharedMemory, raise_file_limit
from statemgr.types import TaskId

LOCK_POLL_S = 0.05
"""Pause between two tries for a lock: short beside the seconds that a stopping process needs."""


def _never() -> bool:
    return False


def _without_log() -> WriteOptions:
    options = WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign,assignment]  # a property, whose stub knows its setter only
    return options


class RocksBackend:
    """Opens, lists and deletes the stores under ``root``.

    Args:
        root: state directory of the replica; no two live replicas may share it.
        settings: memory budget and deadlines.
        stop: asked while waiting for a lock; true ends the wait with StopRequestedError.
        clock: monotonic seconds.
        sleep: waits that many seconds.
    """

    def __init__(
        self,
        root: Path,
        settings: RocksSettings | None = None,
        *,
        stop: Callable[[], bool] = _never,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._root = root
        self._settings = settings or RocksSettings()
        self._stop = stop
        self._clock = clock
        self._sleep = sleep
        self._memory = SharedMemory(self._settings)
        self._open: dict[tuple[TaskId, int], RocksStore] = {}
        raise_file_limit()

    def open(self, task: TaskId, epoch: int, *, filling: bool = False) -> RocksStore:
        """See :meth:`statemgr.store.base.StoreBackend.open`."""
        self._check_closed(task, epoch)
        directory = store_directory(self._root, task, epoch)
        try:
            directories.prepare(directory)
        except OSError as error:
            raise write_error(error, task, epoch, str(directory)) from error
        options = self._memory.filling_options if filling else self._memory.options
        database = self._open_database(task, epoch, directory, options)
        if filling:
            database.set_write_options(_without_log())
        store = RocksStore(task, epoch, directory, database, self._memory.full, lambda: self._forget(task, epoch))
        self._open[task, epoch] = store
        try:
            directories.mark_again(directory)
        except OSError as error:
            empty = store.meta() is None
            store.close()
            if empty:  # without a mark it would be refused by the next who opens it
                directories.remove(directory)
            raise write_error(error, task, epoch, str(directory)) from error
        return store

    def filled(self, stores: Sequence[tuple[TaskId, int]]) -> list[Store]:
        """See :meth:`statemgr.store.base.StoreBackend.filled`; their flushes run side by side."""
        open_for_it = [self._open[at] for at in stores]
        for store in open_for_it:
            store.begin_flush()
        for store in open_for_it:
            store.finish_flush()
            store.close()
        with ExitStack() as on_error:
            ready: list[Store] = []
            for task, epoch in stores:
                ready.append(self.open(task, epoch))
                on_error.callback(ready[-1].close)
            on_error.pop_all()
        return ready

    def existing(self, task: TaskId) -> list[int]:
        """See :meth:`statemgr.store.base.StoreBackend.existing`."""
        return directories.epochs_of(self._root, task)

    def fork(self, task: TaskId, source: int, target: int) -> None:
        """See :meth:`statemgr.store.base.StoreBackend.fork`; the copy shares its table files by hard links."""
        self.copy(task, source, task, target)

    def copy(self, source: TaskId, source_epoch: int, task: TaskId, epoch: int) -> None:
        """Like :meth:`fork`, also under another name."""
        self.destroy(task, epoch)
        directory = store_directory(self._root, task, epoch)
        draft = directory.with_name(directory.name + directories.NEW_SUFFIX)
        shutil.rmtree(draft, ignore_errors=True)
        draft.parent.mkdir(parents=True, exist_ok=True)
        store = self.open(source, source_epoch)
        try:
            store.checkpoint(draft)
        finally:
            store.close()
        try:
            directories.write_mark(draft)
            draft.rename(directory)
        except OSError as error:
            raise write_error(error, task, epoch, str(draft)) from error

    def destroy(self, task: TaskId, epoch: int) -> None:
        """See :meth:`statemgr.store.base.StoreBackend.destroy`."""
        self._check_closed(task, epoch)
        directories.remove(store_directory(self._root, task, epoch))

    def describe(self, task: TaskId, epoch: int) -> str:
        """See :meth:`statemgr.store.base.StoreBackend.describe`."""
        directory = store_directory(self._root, task, epoch)
        return f"{directory} ({directories.size_of(directory):,} bytes)"

    def close(self) -> None:
        """See :meth:`statemgr.store.base.StoreBackend.close`."""
        for store in list(self._open.values()):
            store.close()

    def _open_database(self, task: TaskId, epoch: int, directory: Path, options: Callable[[], Options]) -> Rdict:
        deadline = self._clock() + self._settings.lock_timeout_s
        while True:
            try:
                # Without the column family's own options rocksdict takes those that the store was written with, and
                # the store gets a block cache of its own.
                return Rdict(str(directory), options(), column_families={"default": options()})
            except Exception as error:
                if not is_lock(error):
                    raise open_error(error, task, epoch, self.describe(task, epoch)) from error
                self._wait_for_lock(directory, deadline, error)

    def _wait_for_lock(self, directory: Path, deadline: float, error: Exception) -> None:
        if self._stop():
            raise StopRequestedError(f"asked to stop while waiting for the lock of {directory}") from error
        if self._clock() >= deadline:
            raise StoreLockedError(
                f"{directory} stayed locked by another process for {self._settings.lock_timeout_s:g} s: {error}; "
                "stop that process, or give each replica its own state directory"
            ) from error
        self._sleep(LOCK_POLL_S)

    def _check_closed(self, task: TaskId, epoch: int) -> None:
        if (task, epoch) in self._open:
            raise StoreLockedError(
                f"the store {task}@{epoch} at {store_directory(self._root, task, epoch)} is open in this process; "
                "close it first"
            )

    def _forget(self, task: TaskId, epoch: int) -> None:
        self._open.pop((task, epoch), None)
