"""Directories of workers: one each, also where several workers share Faust's data directory."""

from __future__ import annotations

import fcntl
import os
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from statemgr.errors import StoreLockedError

NAME = "statemgr"
"""Directory below Faust's directory of tables; further workers on the same data directory get ``statemgr-2`` and so
on."""

MAX_SLOTS = 64
"""Workers that share a data directory."""

LOCK_LIMIT_S = 1.0
"""A directory is tried for so long: a state manager that leaves holds its lock for a moment."""

_LOCK_PAUSE_S = 0.05
_LOCK = "worker.lock"
_HOLDER = "holder"
_LEFT = "left"


class Slot:
    """A worker's directory, locked while it lives.

    Attributes:
        directory: where its stores lie.
        holder: name of these stores, the same after a restart.
    """

    def __init__(self, directory: Path, lock: int) -> None:
        self.directory = directory
        self.holder = holder_of(directory)
        self._lock = lock
        (directory / _LEFT).unlink(missing_ok=True)

    def leave(self) -> None:
        """Note that the worker has stopped in order, and unlock the directory."""
        (self.directory / _LEFT).touch()
        self.close()

    def close(self) -> None:
        """Unlock the directory, as a killed worker does."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def take_slot(directory: Path, sleep: Callable[[float], None] = time.sleep) -> Slot:
    """Lock a directory, or the first of its numbered siblings that no other worker uses.

    Raises:
        StoreLockedError: all are in use.
    """
    tries = max(1, round(LOCK_LIMIT_S / _LOCK_PAUSE_S))
    for number in range(1, MAX_SLOTS + 1):
        candidate = directory if number == 1 else directory.with_name(f"{directory.name}-{number}")
        candidate.mkdir(parents=True, exist_ok=True)
        for _ in range(tries):
            lock = try_lock(candidate)
            if lock is not None:
                return Slot(candidate, lock)
            sleep(_LOCK_PAUSE_S)
    raise StoreLockedError(
        f"{MAX_SLOTS} workers use {directory} already; give workers data directories of their own (--datadir)"
    )


def try_lock(directory: Path) -> int | None:
    """The descriptor that holds a worker's lock; None: another holds it. Closing it frees the lock."""
    handle = os.open(directory / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def worker_lives(directory: Path) -> bool:
    """Whether a worker holds the directory."""
    lock = try_lock(directory)
    if lock is None:
        return True
    os.close(lock)
    return False


def has_left(directory: Path) -> bool:
    """Whether the last worker has stopped in order."""
    return (directory / _LEFT).exists()


def holder_of(directory: Path) -> str:
    """Name of the stores in a directory, which is made at the first use."""
    path = directory / _HOLDER
    if not path.exists():
        draft = path.with_name(f"{_HOLDER}.{os.getpid()}.new")
        draft.write_text(f"{uuid.uuid4().hex[:16]}\n")
        with suppress(FileExistsError):  # worker and state manager may begin at the same time
            os.link(draft, path)
        draft.unlink()
    return path.read_text().strip()
