"""The state file, and who may be taken for the broker it names."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from towpath.broker import BrokerState, DataDirError
from towpath.broker.state import process_of, read_state, write_state


def state_of(pid: int | None, created: float) -> BrokerState:
    return BrokerState(
        pid=pid, created=created, port=20001, controller_port=20002, started_at="2026-01-01T00:00:00+00:00", heap="512m"
    )


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_before_the_first_start_there_is_no_state(tmp_path: Path) -> None:
    assert read_state(tmp_path / "broker.json") is None


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    state = state_of(7, 123.25)
    write_state(tmp_path / "broker.json", state)
    assert read_state(tmp_path / "broker.json") == state
    assert [path.name for path in tmp_path.iterdir()] == ["broker.json"]


@pytest.mark.parametrize("content", [b"", b"{", b'{"pid": "x"}', b"\xff"])
def test_a_damaged_state_file_is_named_with_the_remedy(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "broker.json"
    path.write_bytes(content)
    with pytest.raises(DataDirError, match=r"broker\.json isn't a readable state file .*: delete it, try again$"):
        read_state(path)


def test_a_stopped_broker_has_no_process() -> None:
    assert process_of(None) is None
    assert process_of(state_of(None, 0.0)) is None


def test_the_process_that_began_when_the_state_says_is_the_broker() -> None:
    me = psutil.Process()
    found = process_of(state_of(me.pid, me.create_time()))
    assert found is not None
    assert found.pid == os.getpid()


def test_a_reused_pid_is_not_taken_for_the_broker() -> None:
    me = psutil.Process()
    assert process_of(state_of(me.pid, me.create_time() - 60.0)) is None


def test_an_ended_process_is_not_the_broker(child: subprocess.Popen[bytes]) -> None:
    state = state_of(child.pid, psutil.Process(child.pid).create_time())
    assert process_of(state) is not None
    child.kill()
    child.wait()
    assert process_of(state) is None


def test_a_zombie_is_not_the_broker(child: subprocess.Popen[bytes]) -> None:
    state = state_of(child.pid, psutil.Process(child.pid).create_time())
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, but its status is not taken
    assert psutil.Process(child.pid).status() == psutil.STATUS_ZOMBIE
    assert process_of(state) is None


def test_one_state_replaces_the_other_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "broker.json"
    first = state_of(7, 1.0)
    write_state(path, first)
    write_state(path, msgspec.structs.replace(first, pid=None))
    assert read_state(path) == msgspec.structs.replace(first, pid=None)
