"""What containers ask for their health: services/healthy, run against servers of this machine."""

from __future__ import annotations

import os
import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.harness.certificates import Authority
from towpath.broker.ports import free_port

SCRIPT = Path(__file__).resolve().parents[3] / "services" / "healthy"
LIMIT_S = 10.0


class Answers(BaseHTTPRequestHandler):
    """200 for /health, 503 for all else."""

    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def served(context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server; gives its port."""
    with HTTPServer(("127.0.0.1", 0), Answers) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.fixture
def port() -> Iterator[int]:
    yield from served()


def status(*arguments: str | int, **environment: str) -> int:
    """How the program ends."""
    command = [str(SCRIPT), *map(str, arguments)]
    given = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run(command, env=given, capture_output=True, timeout=LIMIT_S, check=False).returncode


def test_it_ends_with_0_when_the_path_says_200_and_not_otherwise(port: int) -> None:
    assert status(port, "/health") == 0
    assert status(port, "/ready") == 1


def test_without_a_path_it_asks_whether_anybody_listens(port: int) -> None:
    assert status(port) == 0
    assert status(free_port()) == 1
    assert status(free_port(), "/health") == 1


def test_with_tls_it_asks_over_tls_whoever_has_signed_the_certificate(tmp_path: Path) -> None:
    issued = Authority(tmp_path).issue("service", "count-0.count")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(issued.cert, issued.key)
    for port in served(context):
        assert status(port, "/health", TOWPATH_TLS_CERT=str(issued.cert)) == 0
        assert status(port, "/ready", TOWPATH_TLS_CERT=str(issued.cert)) == 1
        assert status(port, TOWPATH_TLS_CERT=str(issued.cert)) == 0
