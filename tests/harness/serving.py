"""HTTP servers that a test is itself: they answer in a thread of their own, for as long as they are needed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import HTTPServer
from typing import TypeVar

Server = TypeVar("Server", bound=HTTPServer)

POLL_S = 0.01
"""How soon the end is noticed."""


@contextmanager
def serving(server: Server) -> Iterator[Server]:
    """The server answers meanwhile."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": POLL_S})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
