"""Reading the RocksDB stores of a replica beside the replica."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from rocksdict import Cache

from statemgr.layout import HOT_KEY, MIGRATION_KEY, SECONDARY_DIRECTORY, store_directory
from statemgr.store import directories
from statemgr.store.secondary import SecondaryStore
from statemgr.types import TaskId

CACHE_BYTES = 16 * 1024 * 1024
"""Blocks of all copies together: a look-up of 10,000 keys in 4 KiB blocks passes through 40 MiB once, so more would
hardly be hit again; indexes and filters of some 5 M keys fit."""

_LOCK_NAME = "in-use"


class RocksReaders:
    """Reads the RocksDB stores under a replica's directory.

    Private files lie in a directory of this process under ``.secondary``, held by a file lock, so that what a killed
    state manager has left is recognised and removed by the next.

    Args:
        root: the replica's directory.
        cache_bytes: block cache of all readers together.
    """

    def __init__(self, root: Path, cache_bytes: int = CACHE_BYTES) -> None:
        self._root = root
        self._cache = Cache(cache_bytes)
        parent = root / SECONDARY_DIRECTORY
        parent.mkdir(parents=True, exist_ok=True)
        _remove_left_over(parent)
        self._scratch = Path(tempfile.mkdtemp(dir=parent))
        self._lock = os.open(self._scratch / _LOCK_NAME, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self._opened = 0

    def copies(self) -> list[tuple[TaskId, int]]:
        """See :meth:`statemgr.sidecar.readers.ReaderBackend.copies`."""
        return directories.stores_under(self._root)

    def existing(self, task: TaskId) -> list[int]:
        """See :meth:`statemgr.sidecar.readers.ReaderBackend.existing`."""
        return directories.epochs_of(self._root, task)

    def open(self, task: TaskId, epoch: int) -> RocksReader:
        """See :meth:`statemgr.sidecar.readers.ReaderBackend.open`."""
        self._opened += 1
        scratch = self._scratch / f"{task.partition}@{epoch}-{self._opened}"
        return RocksReader(task, epoch, store_directory(self._root, task, epoch), scratch, self._cache)

    def destroy(self, task: TaskId, epoch: int) -> None:
        """See :meth:`statemgr.sidecar.readers.ReaderBackend.destroy`."""
        with contextlib.suppress(FileNotFoundError):  # the replica deletes it at the same time
            directories.remove(store_directory(self._root, task, epoch))

    def close(self) -> None:
        """See :meth:`statemgr.sidecar.readers.ReaderBackend.close`."""
        shutil.rmtree(self._scratch, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


class RocksReader(SecondaryStore):
    """A copy in RocksDB."""

    def migration(self) -> bytes | None:
        """See :meth:`statemgr.sidecar.readers.StoreReader.migration`."""
        return self.get_many([MIGRATION_KEY])[0]

    def hot(self) -> bytes | None:
        """See :meth:`statemgr.sidecar.readers.StoreReader.hot`."""
        return self.get_many([HOT_KEY])[0]


def _remove_left_over(parent: Path) -> None:
    """Delete the private directories whose process is gone."""
    for directory in parent.iterdir():
        try:
            handle = os.open(directory / _LOCK_NAME, os.O_RDWR)
        except OSError:  # just being made, or just being removed
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        else:
            shutil.rmtree(directory, ignore_errors=True)
        finally:
            os.close(handle)
