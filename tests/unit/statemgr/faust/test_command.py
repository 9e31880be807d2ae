"""``statemgr faust`` as a process: started by a worker, by hand, or as the parent of the worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from statemgr.control.records import Layer
from statemgr.errors import NoSuchCopyError, StateError
from statemgr.faust.beside import RESTART_S, Beside, Manners
from statemgr.faust.slots import take_slot
from statemgr.migration.ports import Address
from statemgr.security import Credentials
from statemgr.sidecar.client import GrpcStateClient
from statemgr.sidecar.endpoint import read_endpoint
from statemgr.testing.clock import ManualClock
from statemgr.types import TaskId
from tests.harness.waiting import wait_for

pytestmark = pytest.mark.slow

LIMIT_S = 30.0
TOKEN = "0123456789abcdef"  # pragma: allowlist secret
TASK = TaskId("app-counts-changelog", 0)


@pytest.fixture
def directory(tmp_path) -> Iterator[Path]:
    """Of a worker; its state manager does not outlive the test."""
    slot = tmp_path / "statemgr"
    slot.mkdir()
    yield slot
    endpoint = read_endpoint(slot)
    if endpoint is not None:
        with suppress(ProcessLookupError):
            os.kill(endpoint.pid, signal.SIGKILL)


def command(directory: Path, *options: str) -> list[str]:
    return [sys.executable, "-m", "statemgr.cli", "faust", "--state-dir", str(directory), *options]


def said(directory: Path, *options: str) -> tuple[int, str]:
    done = subprocess.run(command(directory, *options), capture_output=True, text=True, timeout=LIMIT_S)
    return done.returncode, done.stdout + done.stderr


def describe(address: str, holder: str, credentials: Credentials) -> object:
    client = GrpcStateClient(lambda _: address, credentials)
    try:
        return client.describe(Address(TASK, Layer(holder, 1), 2), -1, 5.0).result()
    finally:
        client.close()


def test_outside_loopback_it_needs_credentials(directory):
    status, text = said(directory, "--host", "0.0.0.0")
    assert (status, text.count("\n")) == (2, 1), text
    assert text.startswith("error: the state manager would listen at 0.0.0.0, where others reach it, without")


def test_a_worker_starts_one_that_demands_its_token(directory, monkeypatch):
    file = directory / "token"
    file.write_text(TOKEN)
    monkeypatch.setenv("TOWPATH_TOKEN_FILE", str(file))
    slot = take_slot(directory)
    beside = Beside(directory, Manners(), Credentials((TOKEN,)))
    address = wait_for("it serves", lambda: beside.ensure() or None, LIMIT_S)
    assert beside.ensure() == address
    with pytest.raises(NoSuchCopyError):
        describe(address, slot.holder, Credentials((TOKEN,)))
    with pytest.raises(StateError, match="token") as refused:
        describe(address, slot.holder, Credentials())
    assert not isinstance(refused.value, NoSuchCopyError)
    slot.close()


def test_one_that_ends_by_itself_is_not_started_again_at_once(directory):
    clock = ManualClock()
    beside = Beside(directory, Manners(host="256.0.0.1", absent_s=1.0), Credentials(insecure=True), clock.monotonic_s)

    def started() -> int:
        assert beside.ensure() == ""
        return beside._started.pid

    first = started()
    beside._started.wait(LIMIT_S)
    clock.advance(RESTART_S / 2)
    assert started() == first
    clock.advance(RESTART_S / 2)
    assert started() != first
    beside._started.wait(LIMIT_S)


def test_as_the_parent_of_a_worker_it_ends_after_it_with_its_status(directory):
    options = ("--absent-s", "0", "--quiet-s", "0")
    assert said(directory, *options, "--", sys.executable, "-c", "raise SystemExit(3)")[0] == 3


def test_the_first_signal_is_for_the_worker(directory):
    worker = "import signal, sys; signal.signal(15, lambda *_: sys.exit(4)); print('up', flush=True); signal.pause()"
    options = ("--absent-s", "0", "--quiet-s", "0")
    child = subprocess.Popen(
        command(directory, *options, "--", sys.executable, "-c", worker), stdout=subprocess.PIPE, text=True
    )
    try:
        assert child.stdout.readline() == "up\n"
        child.terminate()
        assert child.wait(LIMIT_S) == 4
    finally:
        child.kill()
        child.communicate(timeout=LIMIT_S)
    assert read_endpoint(directory) is None
