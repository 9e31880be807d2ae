"""Virtual environments of the peers, from their locked requirements; made once, and anew when those change."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.peers.model import Run, Say, UnavailableError
from bench.peers.places import INSTALLED, PROGRAMS

INSTALL_LIMIT_S = 1800.0
"""The largest, Flink's, is 700 MB: ten minutes on a slow line."""

_LAST_LINES = 3
_STAMP = "installed.txt"


def python_of(peer: str) -> Path:
    """The interpreter of a peer's environment."""
    return INSTALLED / peer / "bin" / "python"


def program_of(peer: str) -> Path:
    """A peer's own program."""
    return PROGRAMS / peer / "program.py"


def write_run(run: Run) -> Path:
    """The file from which a peer's program learns what to do."""
    path = run.work_dir / "run.json"
    path.write_text(json.dumps(run.described(), indent=1), encoding="utf-8")
    return path


def ensure_environment(peer: str, say: Say) -> None:
    """Make a peer's environment unless it is there with the locked versions.

    Raises:
        UnavailableError: they can't be had.
    """
    requirements = PROGRAMS / peer / "requirements.txt"
    wanted = requirements.read_text(encoding="utf-8")
    stamp = INSTALLED / peer / _STAMP
    if stamp.exists() and stamp.read_text(encoding="utf-8") == wanted:
        return
    say(f"{peer}: installing its locked requirements into build/peers/{peer}")
    shutil.rmtree(INSTALLED / peer, ignore_errors=True)
    carry_out([sys.executable, "-m", "venv", str(INSTALLED / peer)], peer)
    pip = [str(python_of(peer)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    carry_out([*pip, "--requirement", str(requirements)], peer)
    stamp.write_text(wanted, encoding="utf-8")


def carry_out(argv: Sequence[str], peer: str) -> None:
    """Run a step of an installation.

    Raises:
        UnavailableError: it failed; its last lines are in the text.
    """
    try:
        done = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=INSTALL_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{peer} could not be installed: {error}") from error
    if done.returncode:
        lines = (done.stderr + done.stdout).strip().splitlines()[-_LAST_LINES:]
        raise UnavailableError(f"{peer} could not be installed: {' '.join(lines)}")
