"""The state file: which process is the broker of a data directory."""

from pathlib import Path

import msgspec
import psutil

from towpath.broker.errors import DataDirError

__all__ = ["BrokerState", "process_of", "read_state", "write_state"]

_CREATE_TOLERANCE = 2.0
"""Seconds by which a process's start may seem to move: the system gives it in ticks since
boot, and the boot time is corrected with the clock. A pid is not reused within two seconds."""


class BrokerState(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the broker that was started last on a data directory.

    Attributes:
        pid: Its process, or None after a stop.
        created: When that process began, by the system's account (seconds since 1970).
        port: Port of the clients' listener.
        controller_port: Port of the controller's listener.
        started_at: When the start was asked for (ISO 8601, UTC).
        heap: Its heap bound, such as `512m`.
    """

    pid: int | None
    created: float
    port: int
    controller_port: int
    started_at: str
    heap: str


def read_state(path: Path) -> BrokerState | None:
    """Reads a state file; None if there is none.

    Raises:
        DataDirError: If it can't be read or isn't a state file.
    """
    try:
        return msgspec.json.decode(path.read_bytes(), type=BrokerState)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        raise DataDirError(f"{path} isn't a readable state file ({error}): delete it, try again") from error


def write_state(path: Path, state: BrokerState) -> None:
    """Writes a state file as a whole: a reader sees the old or the new one."""
    part = path.with_name(f"{path.name}.part")
    part.write_bytes(msgspec.json.encode(state))
    part.replace(path)


def process_of(state: BrokerState | None) -> psutil.Process | None:
    """Gives the living process of a state, or None if it ended, or its pid is someone else's now."""
    if state is None or state.pid is None:
        return None
    try:
        process = psutil.Process(state.pid)
        same = abs(process.create_time() - state.created) <= _CREATE_TOLERANCE
        # A killed child of a process that hasn't waited for it yet is still in the table.
        return process if same and process.status() != psutil.STATUS_ZOMBIE else None
    except psutil.NoSuchProcess:
        return None
