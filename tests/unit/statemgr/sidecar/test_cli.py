"""``statemgr serve`` as a command: what it says when it can't start, and how it ends."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from statemgr.sidecar.endpoint import read_endpoint
from tests.harness.waiting import wait_for

pytestmark = pytest.mark.slow

LIMIT_S = 30.0
NOTHING_LISTENS = "127.0.0.1:1"


class Command:
    """One process of ``statemgr serve``."""

    def __init__(self, directory: Path, *options: str, bootstrap: str = NOTHING_LISTENS) -> None:
        self.directory = directory
        command = [sys.executable, "-m", "statemgr.cli", "serve", "--app", "shop", "--replica", "a"]
        command += ["--state-dir", str(directory), "--bootstrap", bootstrap, "--die-with-parent", *options]
        self._child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def ended(self) -> tuple[int, str]:
        """Exit status and everything that was said."""
        said, _ = self._child.communicate(timeout=LIMIT_S)
        return self._child.returncode, said

    def await_endpoint(self) -> None:
        """Wait until it serves."""
        wait_for("it serves", lambda: read_endpoint(self.directory), LIMIT_S)

    def terminate(self) -> None:
        """SIGTERM."""
        self._child.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Leave no process behind."""
        if self._child.poll() is None:
            self._child.kill()
            self._child.communicate(timeout=LIMIT_S)


@pytest.fixture
def run(tmp_path) -> Iterator:
    """Starts commands."""
    started: list[Command] = []

    def start(*options: str, bootstrap: str = NOTHING_LISTENS) -> Command:
        started.append(Command(tmp_path / f"a{len(started)}", *options, bootstrap=bootstrap))
        return started[-1]

    yield start
    for command in started:
        command.close()


def test_what_is_wrong_is_said_in_one_line(run, tmp_path):
    properties = tmp_path / "client.properties"
    properties.write_text("security.protocol\n")
    refused = tmp_path / "refused.properties"
    refused.write_text("no.such.setting=1\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        cases = {
            run("--port", port): f"can't listen at 127.0.0.1:{port}: is the port in use",
            run("--coordinator", "ftp://localhost"): "--coordinator ftp://localhost: expected a URL, e.g. http://",
            run(bootstrap="localhost"): "Kafka bootstrap server 'localhost': expected host:port",
            run("--kafka-config", str(properties)): "client.properties, line 1: expected key=value",
            run("--kafka-config", str(refused)): "Kafka client settings (from ",
        }
        for command, expected in cases.items():
            status, said = command.ended()
            assert status == 2, said
            (line,) = said.splitlines()
            assert line.startswith("error: ")
            assert expected in line


def test_outside_loopback_it_needs_credentials_and_says_so_or_warns(run, monkeypatch):
    refused = run("--host", "0.0.0.0")
    status, said = refused.ended()
    assert (status, said.count("\n")) == (2, 1), said
    assert said.startswith(
        "error: the state manager would listen at 0.0.0.0, where others reach it, without credentials"
    )
    monkeypatch.setenv("TOWPATH_INSECURE", "true")
    allowed = run("--host", "0.0.0.0")
    allowed.await_endpoint()
    allowed.terminate()
    status, said = allowed.ended()
    assert status == 0, said
    assert "INSECURE: the state manager listens at 0.0.0.0 and demands no credentials" in said


def test_credentials_that_are_wrong_are_said_in_one_line(run, monkeypatch, tmp_path):
    (tmp_path / "token").write_text("hunter2")
    monkeypatch.setenv("TOWPATH_TOKEN_FILE", str(tmp_path / "token"))
    status, said = run().ended()
    assert (status, said.count("\n")) == (2, 1), said
    assert "TOWPATH_TOKEN_FILE: token 1 in" in said
    assert "hunter2" not in said


def test_a_directory_that_can_t_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    command = Command(tmp_path / "file")
    status, said = command.ended()
    assert (status, said.count("\n")) == (2, 1)
    assert "name the replica's --state-dir" in said


def test_without_a_broker_it_serves_and_ends_when_asked(run):
    command = run()
    command.await_endpoint()
    command.terminate()
    status, said = command.ended()
    assert status == 0, said
    assert "stopped cleanly" in said
    assert [entry.name for entry in command.directory.iterdir()] == [".secondary"]


def test_a_second_signal_ends_it_at_once(run):
    command = run("--leave-after-s", "100")
    command.await_endpoint()
    command.terminate()
    command.terminate()
    assert command.ended()[0] in {0, 130}


BREAKS = """
from statemgr.control.log import ControlReader
ControlReader.poll = lambda *_: 1 / 0
from statemgr.cli import main
main()
"""


def test_an_error_that_nobody_foresaw_in_a_thread_ends_the_process_and_asks_for_a_restart(tmp_path):
    options = ["--app", "shop", "--replica", "a", "--state-dir", str(tmp_path), "--bootstrap", NOTHING_LISTENS]
    done = subprocess.run(
        [sys.executable, "-c", BREAKS, "serve", *options], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.returncode == 70, done.stderr
    assert done.stderr.splitlines()[-1] == (
        "crashed: ZeroDivisionError: division by zero; a supervisor starts it again"
    )
    assert read_endpoint(tmp_path) is None


def test_help_shows_an_example():
    said = subprocess.run(
        [sys.executable, "-m", "statemgr.cli", "serve", "--help"], capture_output=True, text=True, timeout=LIMIT_S
    )
    assert "Example: statemgr serve --app shop" in said.stdout
