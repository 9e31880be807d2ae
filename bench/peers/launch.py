"""Starts a system as real processes, and leaves none behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import towpath.broker
from bench.peers.model import Command, Run, RunFailedError
from bench.peers.tree import ProcessTree

STOP_S = 15.0
"""For a clean end after SIGTERM; then the whole tree is killed."""

_TIED = Path(towpath.broker.__file__).with_name("tied.py")
"""Becomes a program that gets SIGTERM when this one ends, however it does."""

_LAST_LINES = 12
_LINE_CHARACTERS = 300


class Launched:
    """The processes of a run; a context manager that ends them."""

    def __init__(self, run: Run, command: Command) -> None:
        self._run = run
        self._command = command
        self._children: list[subprocess.Popen[bytes]] = []
        self.tree: ProcessTree

    def __enter__(self) -> Self:
        cwd = self._command.cwd or self._run.work_dir
        for number in range(self._command.copies):
            with self._log(number).open("wb") as log:
                child = subprocess.Popen(
                    [*_tied(), *self._command.argv],
                    cwd=cwd,
                    env={**os.environ, **self._command.env, "BENCH_COPY": str(number)},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
            self._children.append(child)
        self.tree = ProcessTree(child.pid for child in self._children)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in self._children:
            if child.poll() is None:
                child.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_S
        for child in self._children:
            try:
                child.wait(max(deadline - time.monotonic(), 0.1))
            except subprocess.TimeoutExpired:
                break
        self.tree.kill()
        for child in self._children:
            child.wait()

    def require_alive(self) -> None:
        """Raise if a process has ended.

        Raises:
            RunFailedError: one has; its last lines are in the text.
        """
        for number, child in enumerate(self._children):
            if (status := child.poll()) is not None:
                raise RunFailedError(f"it ended with status {status}: {self.last_lines(number)}")

    def last_lines(self, number: int = 0) -> str:
        """The end of the log of a process."""
        lines = self._log(number).read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(line[:_LINE_CHARACTERS] for line in lines[-_LAST_LINES:])

    def _log(self, number: int) -> Path:
        return self._run.work_dir / f"log-{number}.txt"


def _tied() -> list[str]:
    return [sys.executable, "-I", "-S", str(_TIED), str(os.getpid())] if sys.platform == "linux" else []
