"""Starts, watches and stops the processes of a query through supervisord's own interface."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from xmlrpc.client import Fault, ServerProxy

from supervisor.xmlrpc import Faults, SupervisorTransport

from statemgr.deathsig import die_with_parent
from towpath.errors import SettingsError, TowpathError
from towpath.launch.allocator import with_allocator
from towpath.launch.programs import EXPECTED_EXITS, STOP_WAIT_S, Program, render_config

START_TIMEOUT_S = 20.0
"""supervisord answers within a second; a busy machine may take longer."""

STOP_MARGIN_S = 8.0
"""For supervisord on a busy machine, beyond the time that its programs may take."""

STOP_TIMEOUT_S = STOP_WAIT_S + STOP_MARGIN_S
"""Programs that need no longer than a replica stop at the same time; then supervisord ends itself."""

_POLL_S = 0.05


class PipelineError(TowpathError):
    """The processes of a query could not be started or controlled."""


@dataclass(frozen=True)
class ProcessState:
    """What supervisord says of one process.

    Attributes:
        name: stage and replica index.
        state: supervisord's word, e.g. RUNNING, EXITED, BACKOFF, FATAL.
        pid: process id; 0 while it does not run.
        exit_status: of the last exit.
    """

    name: str
    state: str
    pid: int
    exit_status: int

    @property
    def stopped(self) -> bool:
        """Whether there is no process, and none will be started."""
        return self.state in {"STOPPED", "FATAL"} or self.given_up

    @property
    def given_up(self) -> bool:
        """Whether nobody will start it again; a crashed process is EXITED, too, until supervisord's next look."""
        return self.state == "FATAL" or (self.state == "EXITED" and self.exit_status in EXPECTED_EXITS)


class Pipeline:
    """The processes of a query; a context manager that leaves none behind."""

    def __init__(self, programs: Sequence[Program], run_dir: Path) -> None:
        self._programs = list(programs)
        self._run_dir = run_dir.resolve()
        self._daemon: subprocess.Popen[bytes] | None = None
        self._server: Any = None

    @property
    def programs(self) -> Sequence[Program]:
        """What is run."""
        return self._programs

    def log_file(self, name: str) -> Path:
        """Where a process's output goes."""
        return self._run_dir / f"{name}.log"

    def start(self) -> None:
        """Start all processes.

        Raises:
            PipelineError: supervisord did not come up, or one runs here already.
            SettingsError: the directory can't be used.
        """
        self._make_directory()
        self._require_alone()
        self._put_old_logs_aside(self._programs)
        config = self._write_config()
        socket = self._run_dir / "supervisor.sock"
        socket.unlink(missing_ok=True)
        self._daemon = subprocess.Popen(  # noqa: S603 - our own interpreter
            [sys.executable, "-m", "supervisor.supervisord", "-c", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            start_new_session=True,
            preexec_fn=die_with_parent,
            env=with_allocator(os.environ),
        )
        self._server = _server(socket)
        self._await_answer(socket)

    def states(self) -> list[ProcessState]:
        """State of every process.

        Raises:
            PipelineError: supervisord is gone.
        """
        infos: list[dict[str, Any]] = self._call("getAllProcessInfo")
        return [ProcessState(info["name"], info["statename"], info["pid"], info["exitstatus"]) for info in infos]

    def add(self, program: Program) -> None:
        """Start one more.

        Raises:
            PipelineError: there is one of that name.
        """
        if any(other.name == program.name for other in self._programs):
            raise PipelineError(f"there is a program {program.name!r} already")
        self._programs.append(program)
        self._put_old_logs_aside([program])
        self._write_config()
        self._call("reloadConfig")
        self._call("addProcessGroup", program.name)

    def retire(self, name: str) -> None:
        """Ask one to stop, and return at once; :meth:`states` says when it has."""
        try:
            self._call("stopProcess", name, False)
        except PipelineError as error:
            if not isinstance(error.__cause__, Fault) or error.__cause__.faultCode != Faults.NOT_RUNNING:
                raise

    def remove(self, name: str) -> None:
        """Forget one that has stopped; its log stays.

        Raises:
            PipelineError: it runs still.
        """
        self._call("removeProcessGroup", name)
        self._programs = [program for program in self._programs if program.name != name]
        self._write_config()
        self._call("reloadConfig")

    def stop(self) -> None:
        """Stop everything, at the same time but for what outlives the others; returns when no process is left."""
        if self._daemon is None:
            return
        with contextlib.suppress(PipelineError):
            self._stop_all()
        self._daemon.terminate()
        try:
            self._daemon.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._daemon.kill()
            self._daemon.wait()
        if self._daemon.stderr is not None:
            self._daemon.stderr.close()
        self._daemon = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _stop_all(self) -> None:
        """Supervisord itself would stop one after the other."""
        last = {program.name for program in self._programs if program.outlives}
        names = {state.name for state in self.states() if not state.stopped} - last
        for name in names:
            self.retire(name)
        longest_s = max((program.stop_wait_s for program in self._programs), default=0)
        deadline = time.monotonic() + longest_s + STOP_MARGIN_S
        while time.monotonic() < deadline and any(s.name in names and not s.stopped for s in self.states()):
            time.sleep(_POLL_S)

    def _call(self, method: str, *arguments: object) -> Any:
        try:
            return getattr(self._server.supervisor, method)(*arguments)
        except Fault as fault:
            raise PipelineError(f"{method}: {fault.faultString}") from fault
        except (OSError, HTTPException) as error:
            self._server("close")()  # a connection that failed is in no state for another request
            raise PipelineError(f"supervisord does not answer: {error}") from error

    def _make_directory(self) -> None:
        try:
            self._run_dir.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SettingsError(
                f"--run-dir {str(self._run_dir)!r} can't be made ({error.strerror}): name another directory"
            ) from error

    def _require_alone(self) -> None:
        supervisor: Any = _server(self._run_dir / "supervisor.sock").supervisor
        try:
            pid = supervisor.getPID()
        except (OSError, HTTPException, Fault):
            return
        raise PipelineError(
            f"the same query runs already from {self._run_dir} (pid {pid}): stop it first, or name another --run-dir"
        )

    def _write_config(self) -> Path:
        config = self._run_dir / "supervisord.conf"
        config.write_text(render_config(self._programs, self._run_dir), encoding="utf-8")
        return config

    def _put_old_logs_aside(self, programs: Sequence[Program]) -> None:
        """Keep one earlier log a process, so that what is shown of a log is of this run."""
        for program in programs:
            log = self.log_file(program.name)
            if log.exists():
                log.replace(log.with_suffix(".previous.log"))

    def _await_answer(self, socket: Path) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if self._daemon is not None and self._daemon.poll() is not None:
                said = self._daemon.stderr.read().decode() if self._daemon.stderr is not None else ""
                raise PipelineError(f"supervisord ended at once: {said.strip()}")
            if socket.exists():
                try:
                    self.states()
                except PipelineError:
                    time.sleep(_POLL_S)
                    continue
                return
            time.sleep(_POLL_S)
        self.stop()
        raise PipelineError(f"supervisord did not answer within {START_TIMEOUT_S:g} s; see {self._run_dir}")


def _server(socket: Path) -> ServerProxy:
    """A supervisord behind its socket; nothing is sent yet."""
    return ServerProxy("http://127.0.0.1", transport=SupervisorTransport(None, None, f"unix://{socket}"))
