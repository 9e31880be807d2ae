"""Where the state manager of a replica listens: a file in the replica's directory, for those on the same machine."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec

from statemgr.layout import ENDPOINT_FILE

_ANY_HOSTS = {"0.0.0.0", "::", ""}  # noqa: S104 - recognised, not bound


class Endpoint(msgspec.Struct, frozen=True):
    """Address and process of a state manager."""

    host: str
    port: int
    pid: int

    @property
    def address(self) -> str:
        """As ``host:port``."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def reachable_host(host: str, advertise: str) -> str:
    """Host under which others reach what listens at an address.

    Args:
        host: address that is listened at.
        advertise: what others are to use instead; empty: the address itself, or this machine's name if that is any.
    """
    if advertise:
        return advertise
    return socket.gethostname() if host in _ANY_HOSTS else host


def write_endpoint(root: Path, endpoint: Endpoint) -> None:
    """Write the file by a rename, so that it is whole or absent."""
    draft = root / f"{ENDPOINT_FILE}.{os.getpid()}.new"
    draft.write_bytes(msgspec.json.encode(endpoint))
    draft.replace(root / ENDPOINT_FILE)


def read_endpoint(root: Path) -> Endpoint | None:
    """What the file says; None: there is none. The process may be gone meanwhile."""
    try:
        return msgspec.json.decode((root / ENDPOINT_FILE).read_bytes(), type=Endpoint)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def remove_endpoint(root: Path, endpoint: Endpoint) -> None:
    """Delete the file, unless another state manager has written its own."""
    if read_endpoint(root) == endpoint:
        (root / ENDPOINT_FILE).unlink(missing_ok=True)
