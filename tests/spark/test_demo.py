"""The main job, at a fraction of its size: it ends with one JSON object, and Ctrl-C leaves no process behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from towpath.broker import LocalBroker

pytestmark = [pytest.mark.spark, pytest.mark.broker, pytest.mark.slow]

RUN_LIMIT_S = 280
STOP_LIMIT_S = 60
"""Spark's JVM and the broker end one after the other, each within its own deadline of 20 s."""

ARGUMENTS = ("--rate", "1000", "--seconds", "8")


def start(work: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "demo", *ARGUMENTS, "--work", str(work)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def test_the_last_line_is_the_result_and_nothing_differs(tmp_path: Path) -> None:
    demo = start(tmp_path / "demo")
    out, err = demo.communicate(timeout=RUN_LIMIT_S)

    assert demo.returncode == 0, err
    result = json.loads(out.splitlines()[-1])
    assert list(result) == ["events", "outputs", "mismatches", "p50_ms", "p99_ms", "max_ms", "report"]
    assert result["events"] == 8000
    assert result["mismatches"] == 0
    assert result["outputs"] > 0
    assert 0 < result["p50_ms"] <= result["p99_ms"] <= result["max_ms"]
    assert "<html" in Path(result["report"]).read_text(encoding="utf-8")


def test_ctrl_c_in_the_middle_leaves_no_process_behind(tmp_path: Path) -> None:
    demo = start(tmp_path / "demo")
    assert demo.stderr is not None
    try:
        said = ""
        while "count-1" not in said:
            said = demo.stderr.readline()
            assert said, f"the demo ended early with status {demo.wait()}"
        family = psutil.Process(demo.pid).children(recursive=True)
        assert family
        os.kill(demo.pid, signal.SIGINT)
        demo.communicate(timeout=STOP_LIMIT_S)
    finally:
        if demo.poll() is None:
            demo.kill()

    assert demo.returncode == 130
    assert [process for process in family if alive(process)] == []
    assert LocalBroker(tmp_path / "demo" / "broker").pid is None


def alive(process: psutil.Process, patience_s: float = 5.0) -> bool:
    """Whether a process still runs after a moment; one that only waits to be reaped does not count."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                return False
        except psutil.NoSuchProcess:
            return False
        time.sleep(0.05)
    return True
