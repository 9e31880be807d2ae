"""Where the state manager of a replica listens: a file in the replica's directory, for those on the same machine."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from statemgr.layout import ENDPOINT_FILE


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
