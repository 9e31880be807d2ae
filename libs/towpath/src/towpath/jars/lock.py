"""A lock between processes that the kernel releases when its holder dies."""

import contextlib
import fcntl
import time
from collections.abc import Iterator
from pathlib import Path

__all__ = ["locked"]

_POLL_SECONDS = 0.05
"""Pause between two tries: flock(2) has no deadline of its own."""


@contextlib.contextmanager
def locked(path: Path, deadline: float) -> Iterator[None]:
    """Holds an exclusive lock on a file, which is created and stays.

    Args:
        path: The lock file; its directory must exist.
        deadline: Seconds to wait for another holder.

    Raises:
        TimeoutError: If another process holds it for longer.
        OSError: If the file can't be opened.
    """
    end = time.monotonic() + deadline
    with path.open("a") as file:
        while not _try_lock(file.fileno()):
            if time.monotonic() >= end:
                raise TimeoutError(f"another process has held {path} for {deadline:.0f} s")
            time.sleep(_POLL_SECONDS)
        yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
