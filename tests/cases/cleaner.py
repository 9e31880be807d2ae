"""A second process that deletes a store line by line, each when it is told to: what clean-ups race with is real.

python -m tests.cases.cleaner    reads a state directory, then one line for each step; answers each with a line
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from statemgr.errors import StoreLockedError
from statemgr.sidecar.rocks_readers import RocksReaders
from statemgr.store import directories
from statemgr.types import TaskId

TASK, EPOCH = TaskId("count", 0), 1

ROOT = Path(__file__).parents[2]

STEP, DELETED, LOCKED = "step", "deleted", "locked"

Tracer = Callable[[FrameType, str, Any], Any]


def at_each_line(files: set[str], step: Callable[[], object]) -> Tracer:
    """A trace function that takes a step before each line of these files."""

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        if event == "line":
            step()
        return trace

    return trace


class Cleaner:
    """The other end: a process that goes on by one line of its clean-up with every :meth:`step`."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.cases.cleaner"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        self.outcome: str | None = None
        self.steps = 0

    def begin(self, root: Path) -> None:
        """Stand before the first line of a clean-up."""
        self.outcome, self.steps = None, 0
        self._say(str(root))

    def step(self) -> None:
        """Do one line, if one is left."""
        if self.outcome is None:
            self.steps += 1
            self._say(STEP)

    def finish(self) -> str:
        """Do all lines that are left; tells what came of it."""
        while self.outcome is None:
            self.step()
        return self.outcome

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def _say(self, text: str) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(text, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline().strip()
        assert answer in {STEP, DELETED, LOCKED}, f"the cleaner says {answer!r}, and ends {self._process.poll()}"
        self.outcome = None if answer == STEP else answer


def _clean_up(readers: RocksReaders) -> str:
    def step() -> None:
        print(STEP, flush=True)
        sys.stdin.readline()

    sys.settrace(at_each_line({directories.__file__}, step))
    try:
        readers.destroy(TASK, EPOCH)
    except StoreLockedError:
        return LOCKED
    finally:
        sys.settrace(None)
    return DELETED


def main() -> None:
    """One clean-up after the other, until standard input ends."""
    for line in iter(sys.stdin.readline, ""):
        readers = RocksReaders(Path(line.strip()))
        print(_clean_up(readers), flush=True)
        readers.close()


if __name__ == "__main__":
    main()
