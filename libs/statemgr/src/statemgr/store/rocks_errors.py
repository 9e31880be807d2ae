"""Turns what RocksDB says into this library's errors.

rocksdict raises bare ``Exception`` with RocksDB's status text, whose first word is the status code.
"""

from __future__ import annotations

from statemgr.errors import CorruptStoreError, StateError, StoreWriteError
from statemgr.types import TaskId

_FULL_SIGNS = ("No space left on device", "Disk quota exceeded")
_LOCK_SIGNS = ("lock hold by current process", "While lock file")


def is_lock(error: Exception) -> bool:
    """Whether an open failed because another holder has the store."""
    return any(sign in str(error) for sign in _LOCK_SIGNS)


def is_full(error: Exception) -> bool:
    """Whether there was no room on the disk."""
    return any(sign in str(error) for sign in _FULL_SIGNS)


def open_error(error: Exception, task: TaskId, epoch: int, where: str) -> StateError:
    """The error for a failed open: without room for a new log file the store itself is whole, and must stay."""
    named = write_error if is_full(error) else read_error
    return named(error, task, epoch, where)


def read_error(error: Exception, task: TaskId, epoch: int, where: str) -> StateError:
    """The error for a failed open or read.

    An input/output error counts as corruption: either way the store can't be read, and the changelog can rebuild it.
    """
    return CorruptStoreError(
        f"the store of {task}@{epoch} at {where} cannot be read: {_one_line(error)}; "
        "it can be rebuilt from the changelog",
        task,
        epoch,
    )


def write_error(error: Exception, task: TaskId, epoch: int, where: str) -> StateError:
    """The error for a failed write batch."""
    return StoreWriteError(
        f"the store of {task}@{epoch} at {where} cannot be written: {_one_line(error)}; "
        "check free space and permissions, then restart: the changelog has everything that was committed"
    )


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())
