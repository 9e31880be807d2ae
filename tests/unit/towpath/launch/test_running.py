"""What the launcher tells the operator, and what it refuses before it starts anything."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from towpath.errors import SettingsError
from towpath.launch import Pipeline, ProcessState
from towpath.launch.running import LAST_LINES, Running, _report_change, last_lines, run_coordinated
from towpath.query.loading import load_query


def running(run_dir: Path, said: list[str]) -> Running:
    plan = load_query("queries.key_count", {})
    return Running(plan, "queries.key_count", {}, (), (), run_dir, threading.Event(), said.append)


def told(*states: ProcessState) -> list[str]:
    said: list[str] = []
    subject = running(Path("run"), said)
    for state in states:
        _report_change(subject, state)
    return said


def state(name: str, pid: int = 0, exit_status: int = 0) -> ProcessState:
    return ProcessState("count-0", name, pid, exit_status)


def test_a_start_is_told_as_one_also_when_it_is_seen_half_way() -> None:
    assert told(state("STARTING", 7), state("RUNNING", 7), state("RUNNING", 7)) == ["count-0 runs (pid 7)"]


def test_a_crash_is_told_as_one_seen_or_not() -> None:
    seen = told(state("RUNNING", 7), state("EXITED", 0, 137), state("STARTING", 8), state("RUNNING", 8))
    assert seen == told(state("RUNNING", 7), state("RUNNING", 8))
    assert seen[1] == "count-0 crashed and was started again (pid 8)"


def test_one_that_left_and_is_wanted_again_has_not_crashed() -> None:
    said = told(state("RUNNING", 7), state("EXITED", 0, 0), state("STARTING", 8), state("RUNNING", 8))
    assert said[1] == "count-0 runs (pid 8)"


def test_a_taken_coordinator_port_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(SettingsError, match=rf"--coordinator-port: port {port} .* is taken .* name another port"):
            run_coordinated(running(tmp_path / "run", []), port)
    assert not (tmp_path / "run").exists()


def test_a_run_directory_that_cannot_be_made_is_a_wrong_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match=r"--run-dir .*file/run.* can't be made .*name another directory"):
        Pipeline([], tmp_path / "file" / "run").start()


def test_the_reason_of_a_stage_is_told_also_when_its_state_manager_has_the_last_word() -> None:
    others = [f"statemgr | line {number}" for number in range(20)]
    log = ["stage    | earlier", "stage    | stopped: the disk is full", *others]
    assert last_lines(log) == ["stage    | stopped: the disk is full", *others[-LAST_LINES:]]
    assert last_lines(others) == others[-LAST_LINES:]
    assert last_lines(["stopped: at once"]) == ["stopped: at once"]
