"""Processor time of processes, descendants and the dead included."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from bench.peers.tree import ProcessTree

BUSY = "import time; end = time.process_time() + 0.2\nwhile time.process_time() < end: pass\n"
RUN = "import subprocess, sys, time\nsubprocess.run([sys.executable, '-c', {!r}])\ntime.sleep(60)\n"


@contextmanager
def started(program: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", program])
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
def test_what_a_child_has_used_counts_and_stays_when_it_has_ended():
    clock = itertools.count().__next__
    with started(RUN.format(f"{BUSY}time.sleep(0.5)")) as process:
        tree = ProcessTree([process.pid], clock)
        deadline = time.monotonic() + 30
        while tree.cpu_s() < 0.2 or psutil.Process(process.pid).children():
            assert time.monotonic() < deadline, f"{tree.cpu_s()} s were seen"
            time.sleep(0.02)
        assert 0.2 <= tree.cpu_s() < 5.0
        assert len(tree.rss_bytes()) == 1


@pytest.mark.slow
def test_killing_ends_descendants():
    with started(
        "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(60)'])"
    ) as root:
        deadline = time.monotonic() + 30
        while not (children := psutil.Process(root.pid).children()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        ProcessTree([root.pid]).kill()
        assert not any(child.is_running() and child.status() != psutil.STATUS_ZOMBIE for child in children)
