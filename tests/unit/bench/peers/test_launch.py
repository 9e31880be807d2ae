"""Starting a system, seeing it end, leaving nothing behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from bench.peers.jobs import LATENCY_JOB
from bench.peers.launch import Launched
from bench.peers.model import Command, Guarantee, Run, RunFailedError, Variant
from tests.harness.waiting import wait_for

pytestmark = pytest.mark.slow

LIMIT_S = 30.0


def run_in(directory: Path) -> Run:
    variant = Variant("some", "default", Guarantee.EXACTLY_ONCE)
    return Run("app", variant, LATENCY_JOB, "127.0.0.1:1", "in", "out", directory, 0)


def python(program: str, copies: int = 1) -> Command:
    return Command([sys.executable, "-c", program], copies)


def test_every_copy_knows_its_number_and_all_end_with_the_context(tmp_path: Path):
    program = "import os, time; print('copy', os.environ['BENCH_COPY'], flush=True); time.sleep(60)"
    before = set(psutil.Process().children())
    with Launched(run_in(tmp_path), python(program, copies=2)) as launched:
        wait_for(
            "both copies have said their numbers",
            lambda: "copy 0" in launched.last_lines(0) and "copy 1" in launched.last_lines(1),
            LIMIT_S,
        )
        launched.require_alive()
        pids = [process.pid for process in set(psutil.Process().children()) - before]
        assert len(pids) == 2
    assert not any(psutil.pid_exists(pid) for pid in pids)


def test_one_that_ended_is_told_with_its_last_lines(tmp_path: Path):
    with Launched(run_in(tmp_path), python("raise SystemExit('no memory')")) as launched:

        def ended() -> bool:
            try:
                launched.require_alive()
            except RunFailedError as error:
                assert str(error) == "it ended with status 1: no memory"
                return True
            return False

        wait_for("its end is told", ended, LIMIT_S)


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux for the signal")
def test_a_system_ends_when_the_benchmark_is_killed(tmp_path: Path):
    program = f"""
import sys, time
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[4])!r})
from tests.unit.bench.peers.test_launch import python, run_in
from bench.peers.launch import Launched
with Launched(run_in(Path({str(tmp_path)!r})), python("import time; time.sleep(60)")):
    time.sleep(60)
"""
    benchmark = subprocess.Popen([sys.executable, "-c", program])
    try:
        whole = psutil.Process(benchmark.pid)
        wait_for(
            "the system runs",
            lambda: any("sleep(60)" in " ".join(child.cmdline()[-1:]) for child in whole.children()),
            LIMIT_S,
        )
        (child,) = whole.children()
    finally:
        benchmark.kill()
        benchmark.wait()
    wait_for("the system has ended", lambda: not child.is_running(), LIMIT_S)
