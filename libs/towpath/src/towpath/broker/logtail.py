"""Reads why a broker didn't start out of the end of its logs."""

from pathlib import Path

__all__ = ["log_size", "log_tail", "log_text", "says_disk_full", "says_port_taken"]

_TAIL_BYTES = 64 << 10
"""Bytes of a log's end that are read: a stack trace or two with what came before them."""

_TAIL_LINES = 15
"""Lines that are shown: a reader's screenful with the command and the error."""

_LOUD = (" ERROR ", " FATAL ", "Error", "Exception")


def log_size(path: Path) -> int:
    """Gives a log's size in bytes (0 if there is none), to be the `since` of a later tail."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def log_tail(path: Path, since: int = 0) -> str:
    """Gives the telling lines at the end of a log: those that name an error, else the last ones.

    Args:
        path: The log; it may be absent.
        since: Bytes at its beginning that are of earlier runs (ignored once the log was rolled).
    """
    lines = _last_lines(path, since)
    loud = [line for line in lines if any(word in line for word in _LOUD)]
    return "\n".join(loud[-_TAIL_LINES:] or lines[-_TAIL_LINES:])


def log_text(path: Path, since: int, most: int | None = None) -> str:
    """Gives what was written to a log after `since` bytes; all of it once the log was rolled.

    Args:
        path: The log; it may be absent.
        since: Bytes at its beginning that are left out.
        most: Bytes at its end beyond which nothing is given; None: no bound.
    """
    size = log_size(path)
    if not size:
        return ""
    begin = since if since <= size else 0
    with path.open("rb") as file:
        file.seek(begin if most is None else max(begin, size - most))
        return file.read().decode(errors="replace")


def says_port_taken(text: str) -> bool:
    """Tells whether a log's end says that a listener's address is in use."""
    return "Address already in use" in text or "BindException" in text


def says_disk_full(text: str) -> bool:
    """Tells whether a log's end says that the disk is full."""
    return "No space left on device" in text


def _last_lines(path: Path, since: int) -> list[str]:
    return [line.rstrip() for line in log_text(path, since, _TAIL_BYTES).splitlines() if line.strip()]
