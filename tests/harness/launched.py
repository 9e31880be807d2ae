"""``towpath run`` as a process, with everything under it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil

from tests.harness.processes import REPOSITORY, START_LIMIT_S, STOP_LIMIT_S, tail
from tests.harness.waiting import wait_for
from towpath.launch.programs import STOP_WAIT_S

QUERY = "tests.harness.bid_counts"
GONE_LIMIT_S = STOP_WAIT_S + 8.0
"""Replicas stop within ten seconds at the same time; one that was just being started may miss the signal, and is killed
after the supervisor's wait; the rest is for the supervisor itself on a busy machine."""


class Run:
    """A ``towpath run`` process, in a session of its own as under a terminal.

    Attributes:
        app: the application.
        names: replicas that there should be.
    """

    def __init__(self, bootstrap: str, app: str, work_dir: Path, *options: str, counters: int = 2) -> None:
        self.app = app
        self.names = ["source-0", *(f"count-{index}" for index in range(counters))]
        self.run_dir = work_dir / "run"
        self._log = work_dir / "towpath-run.log"
        command = [
            *(
                sys.executable,
                "-m",
                "towpath.cli",
                "run",
                QUERY,
                "--set",
                f"app={app}",
                "--replicas",
                f"count={counters}",
            ),
            *("--bootstrap", bootstrap, "--state-dir", str(work_dir / "state"), "--run-dir", str(self.run_dir)),
            *options,
        ]
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(command, stdout=log, stderr=log, cwd=REPOSITORY, start_new_session=True)
        self._seen: dict[int, psutil.Process] = {}

    def log(self) -> str:
        """What it has said."""
        return self._log.read_text(errors="replace")

    def descendants(self) -> dict[int, psutil.Process]:
        """Every process that was ever seen under this one and is still there."""
        if self._child.poll() is None:
            for process in psutil.Process(self._child.pid).children(recursive=True):
                self._seen[process.pid] = process
        return {pid: process for pid, process in self._seen.items() if lives(process)}

    def pids(self) -> dict[str, int]:
        """Replica → the newest process id that ``towpath run`` has named."""
        return {name: int(pid) for name, pid in re.findall(r"^(\S+-\d+) .*\(pid (\d+)\)$", self.log(), re.MULTILINE)}

    def await_running(self) -> None:
        """Wait until every replica says that it runs, under the process id that was named."""

        def look() -> bool:
            self.descendants()
            assert self._child.poll() is None, self.describe()
            return sorted(self.pids()) == sorted(self.names) and all(self.runs(name) for name in self.names)

        wait_for("all replicas run", look, START_LIMIT_S, self.describe)

    def send(self, number: int) -> None:
        """Send it a signal."""
        self.descendants()
        os.kill(self._child.pid, number)

    def wait(self, timeout_s: float = GONE_LIMIT_S) -> int:
        """Its exit status; what stands in its way, where it doesn't end."""
        try:
            return self._child.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.descendants()
            raise AssertionError(f"still there after {timeout_s:.0f} s; {self.describe()}") from None

    def await_nothing_left(self) -> None:
        """Wait until no process is left under it."""
        wait_for("no process is left", lambda: not self.descendants(), GONE_LIMIT_S, self.describe)

    def replica_log(self, name: str) -> str:
        """What a replica has said."""
        path = self.run_dir / self.app / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def describe(self) -> str:
        """What a message should say of it."""
        logs = "\n".join(f"{name} logged last:\n{tail(self.replica_log(name))}" for name in self.names)
        return f"towpath run said:\n{tail(self.log())}\nleft: {list(self.descendants().values())}\n{logs}"

    def close(self) -> None:
        """Leave no process behind."""
        left = self.descendants()
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait(STOP_LIMIT_S)
        for process in left.values():
            if lives(process):
                process.kill()

    def runs(self, name: str) -> bool:
        """Whether the newest start of a replica has got so far."""
        starts = self.replica_log(name).split(" starting ")
        return "running" in starts[-1] and len(starts) > 1


def lives(process: psutil.Process) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
