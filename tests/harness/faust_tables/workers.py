"""Faust workers as processes, and the topic that they read."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from statemgr.sidecar.endpoint import read_endpoint
from tests.harness.faust_tables.journal import Lines, events_of, read_journal

PROGRAM = Path(__file__).with_name("program.py")
STOP_S = 60.0
QUIET_S = 2.0
"""A state manager that is a worker's parent leaves so long after the last question."""

Python = str
"""An interpreter that has Faust."""


@dataclass(frozen=True)
class Application:
    """What all workers of an application are told.

    Attributes:
        name: its id.
        bootstrap: Kafka.
        source: the topic that it reads.
        partitions: of the source and of the table.
        kind: which program, see :mod:`tests.harness.faust_tables.program`.
        standbys: Faust's ``table_standby_replicas``.
        session_timeout_s: after which a killed worker is missed.
        guarantee: Faust's ``processing_guarantee``.
        options: further options of the program's kind.
        settings: further settings of ``faust.App``.
    """

    name: str
    bootstrap: str
    source: str
    partitions: int = 4
    kind: str = "count"
    standbys: int = 0
    session_timeout_s: float = 10.0
    guarantee: str = "at_least_once"
    loglevel: str = "info"
    options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)


class Worker:
    """A worker process.

    Args:
        application: what it works for.
        directory: its own.
        store: ``statemgr://`` or ``rocksdb://``.
        python: its interpreter.
        environment: variables beside this process's.
        under: whether it is the child of its state manager, as in a container; then it can't be killed apart from it.
    """

    def __init__(
        self,
        application: Application,
        directory: Path,
        store: str,
        python: Python = sys.executable,
        environment: Mapping[str, str] | None = None,
        *,
        under: bool = False,
    ) -> None:
        self.name = directory.name
        self.directory = directory
        self.store = store
        self._application = application
        self._python = python
        self._environment = {**os.environ, **(environment or {})}
        self._under = under
        if under:
            self._environment |= {"STATEMGR_DIRECTORY": str(self.slot), "STATEMGR_EXTERNAL": "1"}
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "config.json"
        config.write_text(json.dumps(self._config()), encoding="utf-8")
        with (self.directory / "worker.log").open("ab") as log:
            self._child = subprocess.Popen(
                [*self._state_manager(), self._python, str(PROGRAM), str(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.directory,
                env=self._environment,
                start_new_session=self._under,
            )

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._child is not None
        return self._child.pid

    @property
    def running(self) -> bool:
        """Whether it runs."""
        return self._child is not None and self._child.poll() is None

    def stop(self) -> None:
        """SIGTERM, and wait for its end."""
        self.terminate()
        self.await_end()

    def terminate(self) -> None:
        """SIGTERM."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self._signal(signal.SIGKILL)
        self.await_end()

    def pause(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def await_end(self) -> int:
        """Wait for its end; its exit status."""
        assert self._child is not None
        return self._child.wait(STOP_S)

    def journal(self) -> Lines:
        """What it has written down."""
        return read_journal(self.directory / "journal")

    def events(self) -> Lines:
        """Its events."""
        return events_of(self.journal())

    def report(self) -> dict[str, Any]:
        """What it said of itself last; empty: nothing yet."""
        path = self.directory / "report.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def driver(self) -> dict[str, Any]:
        """What its driver said of itself last; empty: nothing yet."""
        return self.report().get("driver") or {}

    def has_all_state(self) -> bool:
        """Whether its driver needs no other's copy any more."""
        partitions = self.driver().get("active", [])
        return bool(partitions) and all(each["migration"] is None for each in partitions)

    def log_lines(self) -> list[str]:
        """What it has printed."""
        path = self.directory / "worker.log"
        return path.read_text(errors="replace").splitlines() if path.exists() else []

    def log(self) -> str:
        """The end of it."""
        return "\n".join([f"--- {self.name}", *self.log_lines()[-60:]])

    @property
    def slot(self) -> Path:
        """Where its driver keeps stores."""
        return self.directory / "data" / "v1" / "tables" / "statemgr"

    def kill_state_manager(self) -> None:
        """SIGKILL to the process beside it."""
        endpoint = read_endpoint(self.slot)
        assert endpoint is not None
        os.kill(endpoint.pid, signal.SIGKILL)

    def close(self) -> None:
        """Leave no process behind."""
        if self.running:
            self._signal(signal.SIGCONT)
            if self._under:
                os.killpg(self.pid, signal.SIGKILL)
            self.kill()
        endpoint = read_endpoint(self.slot)
        if endpoint is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(endpoint.pid, signal.SIGKILL)

    def _signal(self, number: int) -> None:
        assert self._child is not None
        self._child.send_signal(number)

    def _state_manager(self) -> list[str]:
        if not self._under:
            return []
        command = [self._python, "-m", "statemgr.cli", "faust", "--state-dir", str(self.slot)]
        return [*command, "--quiet-s", str(QUIET_S), "--"]

    def _config(self) -> dict[str, Any]:
        application = self._application
        return {
            "app": application.name,
            "bootstrap": application.bootstrap,
            "source": application.source,
            "partitions": application.partitions,
            "kind": application.kind,
            "standbys": application.standbys,
            "session_timeout_s": application.session_timeout_s,
            "guarantee": application.guarantee,
            "loglevel": application.loglevel,
            "settings": dict(application.settings),
            "store": self.store,
            "datadir": str(self.directory / "data"),
            "journal": str(self.directory / "journal"),
            "report": str(self.directory / "report.json"),
            **application.options,
        }


def describe(workers: Iterable[Worker]) -> Callable[[], str]:
    """What the workers say, for the message of a wait that has failed."""
    return lambda: "\n".join(each.log() for each in workers)
