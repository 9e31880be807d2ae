"""Runs many ``towpath`` command lines that end by themselves, at the price of one start of the interpreter.

``python -m tests.harness.commands`` takes command lines on standard input (JSON: a list of argument lists), calls the
program's entry point for each, and writes what it said (both streams) and its exit status.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass

LIMIT_S = 90.0
"""For all command lines together, each of which fails within a second or after the wait that it was given."""


@dataclass(frozen=True)
class Ended:
    """What a command line said, and its exit status."""

    said: str
    status: int


def run_all(command_lines: Sequence[Sequence[str]], cwd: str) -> list[Ended]:
    """Run ``towpath`` command lines, one after the other."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.harness.commands"],
        input=json.dumps([list(line) for line in command_lines]),
        stdout=subprocess.PIPE,
        text=True,
        cwd=cwd,
        check=True,
        timeout=LIMIT_S,
    )
    return [Ended(**item) for item in json.loads(done.stdout)]


def _run(arguments: Sequence[str]) -> Ended:
    sys.stdout.flush()
    kept = os.dup(1), os.dup(2)
    with tempfile.TemporaryFile() as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        try:
            status = _call(arguments)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(kept[0], 1)
            os.dup2(kept[1], 2)
        output.seek(0)
        return Ended(output.read().decode(errors="replace"), status)


def _call(arguments: Sequence[str]) -> int:
    """Call the entry point as the interpreter would: an exit gives its status, any other exception a trace and 1."""
    from towpath.cli import main

    sys.argv = ["towpath", *arguments]
    try:
        main()
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    results = [_run(line) for line in json.load(sys.stdin)]
    json.dump([vars(result) for result in results], sys.stdout)
