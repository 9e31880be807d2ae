"""The files around a store: names, the format mark, the lock probe, removal.

::

    <root>/<stage>/<partition>@<epoch>/           a store (named by statemgr.layout)
                   <partition>@<epoch>.new        a fork that is being made
                   <partition>@<epoch>.removed    a store that is being deleted

A store appears and disappears by one rename, so that a crash leaves no half store under a store's name.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from statemgr.errors import IncompatibleStoreError, StoreLockedError
from statemgr.layout import BIN_COUNT, store_directory
from statemgr.store.base import META_FORMAT
from statemgr.types import TaskId

NEW_SUFFIX = ".new"
REMOVED_SUFFIX = ".removed"

MARK_NAME = "towpath-store.json"
"""File that says how the directory is to be read. It is there before RocksDB's first file."""

MARK: dict[str, object] = {"format": META_FORMAT, "raw": True, "bins": f"crc32/{BIN_COUNT}", "compaction": "level"}
"""What must agree for a directory to be read rightly. Options that only change speed are left out."""

_WRAPPER_CONFIG = "rocksdict-config.json"
_STORE_NAME = re.compile(r"(\d+)@(\d+)", re.ASCII)


_TRIES = 10
"""Times that a directory may be deleted by others while it is prepared: each copy is deleted once."""


def epochs_of(root: Path, task: TaskId) -> list[int]:
    """Epochs of the task's store directories under ``root``, ascending."""
    parent = store_directory(root, task, 0).parent
    if not parent.is_dir():
        return []
    prefix = f"{task.partition}@"
    names = (entry.name.removeprefix(prefix) for entry in parent.iterdir() if entry.name.startswith(prefix))
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())


def stores_under(root: Path) -> list[tuple[TaskId, int]]:
    """Every store under ``root`` as (task, epoch), sorted."""
    return sorted(
        (TaskId(stage, int(found[1])), int(found[2]))
        for stage in _names_in(root)
        if not stage.startswith(".")
        for name in _names_in(root / stage)
        if (found := _STORE_NAME.fullmatch(name)) is not None
    )


def _names_in(directory: Path) -> list[str]:
    """Names in a directory that others may delete meanwhile; of a file, or of what is not there: none."""
    try:
        return [entry.name for entry in directory.iterdir()]
    except (FileNotFoundError, NotADirectoryError):
        return []


def is_store(directory: Path) -> bool:
    """Whether there is a database with its format mark."""
    return (directory / MARK_NAME).exists() and (directory / "CURRENT").exists()


def identity(directory: Path) -> tuple[int, int] | None:
    """Tells a store from another that was made later under the same name; None: there is none."""
    try:
        found = (directory / MARK_NAME).stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns


def prepare(directory: Path) -> None:
    """Create the directory with its format mark, or check the mark of one that exists.

    Raises:
        IncompatibleStoreError: the directory was written with another format or other options, or by others.
    """
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):  # a state manager has just deleted it: what is made now is a new one
            _prepare(directory)
            return
    _prepare(directory)


def _prepare(directory: Path) -> None:
    if (directory / MARK_NAME).exists():
        check_mark(directory)
        return
    if (directory / "CURRENT").exists():
        raise IncompatibleStoreError(f"{directory} is a database without {MARK_NAME}; {_remedy(directory)}")
    directory.mkdir(parents=True, exist_ok=True)
    write_mark(directory)


def write_mark(directory: Path) -> None:
    """Write the format mark by a rename, so that it is whole or absent."""
    draft = directory / (MARK_NAME + NEW_SUFFIX)
    draft.write_text(json.dumps(MARK, sort_keys=True))
    draft.replace(directory / MARK_NAME)


def mark_again(directory: Path) -> None:
    """Mark a store that is open, if the mark was deleted between its check and the opening.

    A state manager deletes superseded copies, and its replica looks at them to see whether they are of use: what was
    opened then is a new, empty store, which must be recognised by the next who opens it.
    """
    if not (directory / MARK_NAME).exists():
        write_mark(directory)


def check_mark(directory: Path) -> None:
    """Check that a store is in this version's format.

    Raises:
        IncompatibleStoreError: it was written with another format or other options.
    """
    mark = directory / MARK_NAME
    try:
        found = json.loads(mark.read_text())
    except ValueError as error:
        raise IncompatibleStoreError(f"{mark} is not readable: {error}; {_remedy(directory)}") from error
    if found != MARK:
        raise IncompatibleStoreError(f"{directory} was written as {found}, expected {MARK}; {_remedy(directory)}")
    wrapper = directory / _WRAPPER_CONFIG
    config = wrapper.read_text().replace(" ", "") if wrapper.exists() else ""
    if config and '"raw_mode":true' not in config:  # empty while a reader that opens the store rewrites it
        raise IncompatibleStoreError(
            f"{directory} was opened without raw mode by another program; {_remedy(directory)}"
        )


def _remedy(directory: Path) -> str:
    return f"use another state directory, or delete {directory.name} to have it rebuilt from the changelog"


@contextmanager
def probed_lock(directory: Path) -> Iterator[None]:
    """Hold RocksDB's own lock of a store that this process does not have open.

    Raises:
        StoreLockedError: another process has it open.
    """
    # Made if it is not there: a store that is just being created is locked by nobody yet, and open a moment later.
    handle = os.open(directory / "LOCK", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EAGAIN):
                raise
            raise StoreLockedError(
                f"{directory} is open in another process; stop that process, or give each replica its own state "
                "directory"
            ) from error
        yield
    finally:
        os.close(handle)


def remove(directory: Path) -> None:
    """Delete a store directory: renamed first, so that no half store is ever seen.

    Raises:
        StoreLockedError: another process has it open.
    """
    trash = directory.with_name(directory.name + REMOVED_SUFFIX)
    if trash.exists():
        shutil.rmtree(trash)
    if directory.exists():
        with probed_lock(directory):
            directory.rename(trash)
        shutil.rmtree(trash)


def remove_husk(directory: Path) -> None:
    """Delete what opening an absent store for reading has left: a directory with the wrapper's file alone."""
    if {entry.name for entry in directory.glob("*")} == {_WRAPPER_CONFIG}:
        (directory / _WRAPPER_CONFIG).unlink(missing_ok=True)
        directory.rmdir()


def size_of(directory: Path) -> int:
    """Bytes of the directory's files."""
    return sum(entry.stat().st_size for entry in directory.glob("*") if entry.is_file())
