"""Replicas as real processes that a test may kill, pause and start again."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.harness.waiting import wait_for

REPOSITORY = Path(__file__).parents[2]
"""Working directory of the processes, so that the queries of the tests can be imported."""

STOP_LIMIT_S = 10.0
"""A replica has left this long after SIGTERM, whatever the broker does (the promise of ``towpath stage``)."""

START_LIMIT_S = 60.0
"""Until a replica runs: two seconds on an idle machine; ten replicas on two busy cores take twenty."""

HTTP_TIMEOUT_S = 1.0
_LOG_LINES = 12
_CRASH = "Fatal Python error"
_PORT = re.compile(r"\bhttp(?:=|\": )(\d+)")


def tail(text: str, lines: int = _LOG_LINES) -> str:
    """The last lines of a log, indented; of a process that crashed, all that was printed of its stacks."""
    found = text.splitlines()
    crashed = next((place for place, line in enumerate(found) if line.startswith(_CRASH)), len(found))
    return "\n".join(f"    {line}" for line in found[max(0, crashed - lines) :]) or "    (nothing logged)"


class LoggedProcess:
    """A process and its log file.

    Start it from the main thread only: the kernel ends it when the *thread* that started it ends.
    """

    def __init__(self, name: str, command: Sequence[str], log_file: Path) -> None:
        self.name = name
        self.command = list(command)
        self.log_file = log_file
        self._child: subprocess.Popen[bytes] | None = None
        self._log_start = 0
        self._port: int | None = None

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        return self._child is not None and self._child.poll() is None

    @property
    def pid(self) -> int:
        """Process id of the newest start."""
        return self._started.pid

    def start(self) -> None:
        """Start the process; its log goes on in the same file."""
        assert not self.alive, f"{self.name} runs already"
        self.log_file.parent.mkdir(parents=True, exist_ok=True)
        self._port = None
        with self.log_file.open("ab") as log:
            self._log_start = log.tell()
            environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
            self._child = subprocess.Popen(self.command, stdout=log, stderr=log, cwd=REPOSITORY, env=environment)

    def kill(self) -> None:
        """Kill -9, and wait until the kernel has removed the process."""
        self._started.kill()
        self._started.wait(STOP_LIMIT_S)

    def pause(self) -> None:
        """SIGSTOP."""
        self._started.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._started.send_signal(signal.SIGCONT)

    def terminate(self) -> None:
        """SIGTERM."""
        self._started.terminate()

    def wait(self, timeout_s: float = STOP_LIMIT_S) -> int:
        """Exit status, once the process has ended by itself."""
        try:
            return self._started.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} has not ended within {timeout_s:g} s. {self.describe()}") from None

    def stop(self, timeout_s: float = STOP_LIMIT_S) -> float:
        """SIGTERM, and require exit status 0 within the limit.

        Returns:
            Seconds it took.
        """
        begin = time.monotonic()
        self.terminate()
        self.require_clean_exit(timeout_s)
        return time.monotonic() - begin

    def require_clean_exit(self, timeout_s: float = STOP_LIMIT_S) -> None:
        """Wait for exit status 0 within the limit."""
        status = self.wait(timeout_s)
        assert status == 0, f"{self.name} ended with status {status} after SIGTERM. {self.describe()}"

    def abort(self) -> None:
        """End it with the stacks of all its threads in its log: for one that does not do what it should."""
        if self.alive:
            self.resume()
            self._started.send_signal(signal.SIGABRT)
            self._started.wait(STOP_LIMIT_S)

    def close(self) -> None:
        """Leave no process behind."""
        if self.alive:
            self.kill()

    def log(self) -> str:
        """What the newest process has said."""
        if not self.log_file.exists():
            return ""
        with self.log_file.open("rb") as file:
            file.seek(self._log_start)
            return file.read().decode(errors="replace")

    def await_log(self, text: str, timeout_s: float = START_LIMIT_S) -> str:
        """Wait until the newest process has logged ``text``; gives the whole log."""

        def look() -> str | None:
            log = self.log()
            if text in log:
                return log
            self._require_alive(f"{text!r} was logged")
            return None

        return wait_for(f"{self.name} logs {text!r}", look, timeout_s, self.describe)

    def get(self, path: str) -> tuple[int, Any] | None:
        """Status and JSON of an HTTP endpoint; None while the process does not answer."""
        answer = self.ask(path)
        return None if answer is None else (answer[0], json.loads(answer[1]))

    def ask(self, path: str) -> tuple[int, bytes] | None:
        """Status and body of an HTTP endpoint; None while the process does not answer."""
        if self._port is None:
            found = _PORT.search(self.log())
            if found is None:
                return None
            self._port = int(found[1])
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=HTTP_TIMEOUT_S) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()
        except OSError:
            return None

    def describe(self) -> str:
        """What a message should say of this process."""
        status = None if self._child is None else self._child.poll()
        ended = "" if status is None else f", ended with status {status}"
        return f"{self.name} ({self.condition()}{ended}) logged last:\n{tail(self.log())}"

    def condition(self) -> str:
        """Where the process stands, for messages."""
        return "alive" if self.alive else "dead"

    @property
    def _started(self) -> subprocess.Popen[bytes]:
        assert self._child is not None, f"{self.name} was never started"
        return self._child

    def _require_alive(self, before: str) -> None:
        assert self.alive, f"{self.name} ended before {before}. {self.describe()}"


class ReplicaProcess(LoggedProcess):
    """One ``towpath stage`` process, its log file and its state directory."""

    def __init__(
        self,
        query: str,
        stage: str,
        work_dir: Path,
        bootstrap: str,
        *,
        index: int = 0,
        count: int = 1,
        options: Sequence[str] = (),
        label: str = "",
    ) -> None:
        """``label`` tells two processes of the same replica apart: it gives each its own log and state directory."""
        name = f"{stage}-{index}"
        self.state_root = work_dir / f"state{label}"
        command = [
            *(sys.executable, "-m", "towpath.cli", "stage", query, "--stage", stage),
            *("--replica-index", str(index), "--replica-count", str(count), "--bootstrap", bootstrap),
            *("--state-dir", str(self.state_root), "--die-with-parent", *options),
        ]
        super().__init__(name, command, work_dir / f"{name}{label}.log")

    @property
    def state_dir(self) -> Path:
        """Directory of this replica's stores, below that of its application; one that does not exist before it ran."""
        return next(self.state_root.glob(f"*/{self.name}"), self.state_root / "not-yet" / self.name)

    def wipe_state(self) -> None:
        """Delete the stores, as the loss of the machine would."""
        shutil.rmtree(self.state_dir, ignore_errors=True)

    def phase(self) -> str:
        """The replica's phase; ``booting`` before it serves HTTP, ``dead`` when there is no process."""
        if not self.alive:
            return "dead"
        answer = self.get("/ready")
        return "booting" if answer is None else str(answer[1]["phase"])

    def await_phase(self, phase: str, timeout_s: float = START_LIMIT_S) -> None:
        """Wait for a phase by ``/ready``."""

        def look() -> bool:
            if self.phase() == phase:
                return True
            self._require_alive(f"it was {phase}")
            return False

        wait_for(f"{self.name} is {phase}", look, timeout_s, self.describe)

    def await_running(self, timeout_s: float = START_LIMIT_S) -> None:
        """Wait until the replica owns its tasks and processes."""
        self.await_phase("running", timeout_s)

    def condition(self) -> str:
        """See :class:`LoggedProcess`."""
        return f"phase {self.phase()}"
