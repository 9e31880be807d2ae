"""Programs that come and go while a pipeline runs."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from tests.harness.waiting import wait_for
from towpath.launch import Pipeline, ProcessState, Program
from towpath.launch.pipeline import PipelineError
from towpath.launch.pipeline import _server as server_at

pytestmark = pytest.mark.slow

LIMIT_S = 20.0

LEAVES = """
import signal, sys, time
def leave(*_):
    time.sleep({leave_s})
    print("left", time.monotonic_ns(), flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
while True: time.sleep(0.05)
"""


def program(name: str, leave_s: float = 0.0, *, outlives: bool = False) -> Program:
    code = f"exec({LEAVES.format(leave_s=leave_s)!r})"
    return Program(name, "test", (sys.executable, "-c", code), outlives=outlives)


def await_ready(pipeline: Pipeline, name: str) -> None:
    log = pipeline.log_file(name)
    wait_for(f"{name} is ready", lambda: log.exists() and "ready" in log.read_text(), LIMIT_S)


def state_of(pipeline: Pipeline, name: str) -> ProcessState | None:
    return next((state for state in pipeline.states() if state.name == name), None)


def left_at(pipeline: Pipeline, name: str) -> int:
    return int(pipeline.log_file(name).read_text().split()[-1])


def test_a_program_is_added_retired_and_removed(tmp_path: Path) -> None:
    with Pipeline([program("one")], tmp_path) as pipeline:
        pipeline.add(program("two"))
        await_ready(pipeline, "two")
        pipeline.retire("two")
        wait_for("two has stopped", lambda: (state := state_of(pipeline, "two")) and state.stopped, LIMIT_S)
        state = state_of(pipeline, "two")
        assert state is not None
        assert state.exit_status == 0
        pipeline.retire("two")
        pipeline.remove("two")
        assert [state.name for state in pipeline.states()] == ["one"]
        pipeline.add(program("two"))
        await_ready(pipeline, "two")


def test_one_that_runs_is_not_removed_and_a_name_is_not_used_twice(tmp_path: Path) -> None:
    with Pipeline([program("one")], tmp_path) as pipeline:
        await_ready(pipeline, "one")
        with pytest.raises(PipelineError, match="STILL_RUNNING: one"):
            pipeline.remove("one")
        with pytest.raises(PipelineError, match="there is a program 'one' already"):
            pipeline.add(program("one"))


def test_all_stop_at_the_same_time_and_what_they_need_after_them(tmp_path: Path) -> None:
    names = ["needed", "a", "b", "c"]
    with Pipeline(
        [program("needed", outlives=True), *(program(name, leave_s=1.0) for name in names[1:])], tmp_path
    ) as pipeline:
        for name in names:
            await_ready(pipeline, name)
    left = {name: left_at(pipeline, name) for name in names}
    assert max(left.values()) == left["needed"]
    others = [left[name] for name in names[1:]]
    assert max(others) - min(others) < 1_000_000_000, "one after the other would be a second apart"


def test_a_supervisor_that_does_not_listen_yet_can_be_asked_again_and_again(tmp_path: Path) -> None:
    """Its socket is bound a moment before it listens."""
    pipeline = Pipeline([program("one")], tmp_path)
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(tmp_path / "bound"))
        pipeline._server = server_at(tmp_path / "bound")
        for _ in range(3):
            with pytest.raises(PipelineError, match="supervisord does not answer"):
                pipeline.states()
