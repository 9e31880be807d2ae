"""What comes of an audit: by the auditor itself, and an advisory database that the test is."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.audit.__main__ import ROOT
from tests.audit.judge import Audited, Verdict, judge
from tests.harness.serving import serving

ADVISORY = {
    "id": "GHSA-1",
    "modified": "2026-01-01T00:00:00Z",
    "published": "2026-01-01T00:00:00Z",
    "summary": "it breaks",
    "affected": [],
}


class Database(ThreadingHTTPServer):
    """Answers as OSV does; the packages named are faulty."""

    def __init__(self) -> None:
        self.faulty: set[str] = set()
        self.asked: set[str] = set()
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Database

    def do_POST(self) -> None:
        queries = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        names = [query["package"]["name"] for query in queries]
        self.server.asked.update(names)
        faults = [{"id": "GHSA-1", "modified": ADVISORY["modified"]}]
        self._send({"results": [{"vulns": faults} if name in self.server.faulty else {} for name in names]})

    def do_GET(self) -> None:
        self._send(ADVISORY)

    def _send(self, answer: Any) -> None:
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def database() -> Iterator[Database]:
    with serving(Database()) as server:
        yield server


def audited(url: str) -> Audited:
    uv = shutil.which("uv") or shutil.which("uv", path=str(ROOT / ".venv-uv" / "bin"))
    if uv is None:
        pytest.skip("uv is neither on PATH nor in .venv-uv; `make setup` installs it")
    command = [uv, "audit", "--locked", "--preview-features", "audit-command", "--service-url", url]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    return judge(done.returncode, done.stdout, done.stderr)


@pytest.mark.slow
def test_everything_that_is_locked_is_asked_for_and_nothing_found_is_clean(database: Database) -> None:
    found = audited(database.url)
    assert (found.verdict, found.verdict.status) == (Verdict.CLEAN, 0), found.text
    assert {"grpcio", "pyspark", "fastapi", "pytest", "fastavro"} <= database.asked


@pytest.mark.slow
def test_a_fault_is_named_and_fails(database: Database) -> None:
    database.faulty.add("grpcio")
    found = audited(database.url)
    assert (found.verdict, found.verdict.status) == (Verdict.FAULTS, 1)
    assert "grpcio" in found.text
    assert "GHSA-1: it breaks" in found.text


@pytest.mark.slow
def test_a_database_that_is_away_fails_nothing_and_is_told_loudly() -> None:
    found = audited("http://127.0.0.1:1")
    assert (found.verdict, found.verdict.status) == (Verdict.NOT_CHECKED, 0), found.text
    assert "DEPENDENCIES WERE NOT CHECKED" in found.text


def test_an_auditor_that_breaks_fails() -> None:
    found = judge(2, "", "error: unexpected argument '--locked'")
    assert (found.verdict, found.verdict.status) == (Verdict.BROKEN, 1)
    assert judge(101, "", "").verdict is Verdict.BROKEN
