"""All tests, in two parts: those that need the processor alone side by side, then those of real parts one by one.

Real brokers, Spark and containers fill a small machine by themselves, and need all of it for their deadlines.
Arguments go to pytest; the status is that of the first part that failed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

import pytest

REAL = "broker or spark or compose or kubernetes"
PARTS = (["-n", "logical", "-m", f"not ({REAL})"], ["-m", f"({REAL}) and not long"])

NOT_FAILED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
"""Arguments may choose tests of one part only."""


def main(arguments: list[str]) -> int:
    """Run both parts, the second one also when the first has failed."""
    with tempfile.TemporaryDirectory(prefix="towpath-pycache-") as compiled:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # hundreds of processes would compile everything again
        statuses = [
            subprocess.call([sys.executable, "-m", "pytest", *part, *arguments], env=environment) for part in PARTS
        ]
    if set(statuses) == {pytest.ExitCode.NO_TESTS_COLLECTED}:
        return pytest.ExitCode.NO_TESTS_COLLECTED
    return next((status for status in statuses if status not in NOT_FAILED), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
