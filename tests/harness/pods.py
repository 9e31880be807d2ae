"""The processes of a coordinated application, each of which a test may kill: coordinator, stages, state managers.

A test plays the supervisor's part: it starts again what it has killed, and reports the dead or leaves that to silence.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import sys
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.harness.processes import HTTP_TIMEOUT_S, START_LIMIT_S, LoggedProcess, ReplicaProcess
from tests.harness.waiting import wait_for

DRAIN_LIMIT_S = 60.0
"""A drained stage has left after that: its moves take a second, behind a killed owner's fence a few more."""

LINGER_LIMIT_S = 90.0
"""A state manager stays until the state that it serves has arrived elsewhere, bin by bin."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class CoordinatorProcess(LoggedProcess):
    """A ``towpath coordinator`` process; it comes back under the same address."""

    def __init__(self, query: str, work_dir: Path, bootstrap: str, options: Sequence[str] = ()) -> None:
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        command = [
            *(sys.executable, "-m", "towpath.cli", "coordinator", query, "--bootstrap", bootstrap),
            *("--http-port", str(port), "--die-with-parent", *options),
        ]
        super().__init__("coordinator", command, work_dir / "coordinator.log")
        self._port = port

    def start(self) -> None:
        """See :class:`LoggedProcess`."""
        port = self._port
        super().start()
        self._port = port

    def await_leading(self, timeout_s: float = START_LIMIT_S) -> None:
        """Wait until it leads."""

        def look() -> bool:
            answer = self.get("/health")
            if answer is not None and answer[1].get("leading"):
                return True
            self._require_alive("it led")
            return False

        wait_for("the coordinator leads", look, timeout_s, self.describe)

    def post(self, path: str, body: dict[str, Any] | None = None) -> Any:
        """Answer to a request; None if there was none."""
        request = urllib.request.Request(
            self.url + path,
            json.dumps(body or {}).encode(),
            {"Content-Type": "application/json"},
            method="POST",
        )
        try:
            with urllib.request.urlopen(request, timeout=HTTP_TIMEOUT_S) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return {"status": error.code, "said": error.read().decode(errors="replace")}
        except OSError:
            return None


class StateManagerProcess(LoggedProcess):
    """A ``statemgr serve`` process over the stores of one replica."""

    def __init__(self, app: str, name: str, state_root: Path, log_dir: Path, bootstrap: str, coordinator: str) -> None:
        command = [
            *(sys.executable, "-m", "statemgr.cli", "serve", "--app", app, "--replica", name),
            *("--state-dir", str(state_root / app / name), "--bootstrap", bootstrap, "--coordinator", coordinator),
            *("--leave-after-s", f"{LINGER_LIMIT_S / 2:g}", "--die-with-parent"),
        ]
        super().__init__(f"{name}/statemgr", command, log_dir / f"{name}.statemgr.log")


class StageProcess(ReplicaProcess):
    """A ``towpath stage`` process under a coordinator."""

    def __init__(
        self,
        query: str,
        stage: str,
        name: str,
        work_dir: Path,
        bootstrap: str,
        coordinator: str,
        options: Sequence[str] = (),
    ) -> None:
        super().__init__(query, stage, work_dir, bootstrap, label=f".{name}")
        self.name = name
        self.log_file = work_dir / f"{name}.log"
        self.command = [
            *(sys.executable, "-m", "towpath.cli", "stage", query, "--stage", stage, "--bootstrap", bootstrap),
            *("--coordinator", coordinator, "--replica", name),
            *("--state-dir", str(self.state_root), "--die-with-parent", *options),
        ]


class Pod:
    """One replica: stage and, if it has state, state manager, with a state directory of its own.

    Attributes:
        stage: the stage's process.
        state_manager: the state manager's process; None for a stage without state.
        leaving: whether it was asked to drain.
        struck: whether a process of it was killed after it was asked to drain, so that no status may be required.
    """

    def __init__(self, app: str, stateful: bool, stage: StageProcess, work_dir: Path, coordinator: CoordinatorProcess):
        self.stage = stage
        self.stage_name = stage.command[stage.command.index("--stage") + 1]
        bootstrap = stage.command[stage.command.index("--bootstrap") + 1]
        self.state_manager = (
            StateManagerProcess(app, stage.name, stage.state_root, work_dir, bootstrap, coordinator.url)
            if stateful
            else None
        )
        self.leaving = False
        self.struck = False
        self._told = False
        self._coordinator = coordinator

    @property
    def name(self) -> str:
        """The replica's name."""
        return self.stage.name

    @property
    def processes(self) -> list[LoggedProcess]:
        """All its processes."""
        return [self.stage] if self.state_manager is None else [self.stage, self.state_manager]

    @property
    def gone(self) -> bool:
        """Whether no process of it is left."""
        return not any(process.alive for process in self.processes)

    def start(self) -> None:
        """Start what does not run."""
        self.leaving = self.struck = self._told = False
        for process in reversed(self.processes):
            if not process.alive:
                process.start()

    def drain(self) -> None:
        """Ask the stage to leave."""
        self.leaving = True
        self.stage.terminate()

    def tend(self) -> None:
        """What a supervisor does while a pod leaves: the stage gone, its state manager is told once to end."""
        if self.leaving and not self._told and not self.stage.alive and self.state_manager is not None:
            self._told = True
            if self.state_manager.alive:
                self.state_manager.terminate()

    def revive(self) -> None:
        """What a supervisor does about dead processes: a stage that was asked to leave is not started again."""
        manager = self.state_manager
        if manager is not None and not manager.alive and not (self._told and manager.wait() == 0):
            manager.start()
            self._told = False
        if not self.leaving and not self.stage.alive:
            self.stage.start()

    def require_clean_exits(self) -> None:
        """Every process has left with 0, unless it was struck; a stage that ends only now has its manager told."""
        for process in () if self.struck else self.processes:
            status = process.wait(LINGER_LIMIT_S)
            self.tend()
            # One that got its signal before it could heed it had not begun anything.
            assert status in {0, -signal.SIGTERM}, f"{process.name} ended with status {status}. {self.describe()}"

    def report_died(self) -> None:
        """Tell the coordinator that the stage is dead, as a supervisor does."""
        self._coordinator.post(f"/replicas/{self.stage_name}/{self.name}/died")

    def lose_disk(self) -> None:
        """As when a machine is lost: the state manager goes with the stores."""
        self.close()
        shutil.rmtree(self.stage.state_root, ignore_errors=True)

    def close(self) -> None:
        """Leave no process behind, a stopped one neither."""
        for process in self.processes:
            process.close()

    def describe(self) -> str:
        """What a message should say of it."""
        return "\n".join(process.describe() for process in self.processes)


def is_stopped(process: LoggedProcess) -> bool:
    """Whether the kernel has stopped a process (SIGSTOP)."""
    try:
        stat = Path(f"/proc/{process.pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] == "T"


def resume(process: LoggedProcess) -> None:
    """SIGCONT, if it is there."""
    if process.alive:
        os.kill(process.pid, signal.SIGCONT)
