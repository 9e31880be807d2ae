"""The source distribution of the installed version of faust-streaming, which has its tests; fetched once by pip."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

PROJECT = "faust-streaming"
KEPT = Path(__file__).resolve().parents[3] / "build" / "faust-source"

FETCH_LIMIT_S = 200.0
"""pip prepares a source distribution's metadata, for which it installs the tools to build it: 20 s."""


class SourceMissingError(Exception):
    """It can't be had; the text says why."""


def source() -> Path:
    """A directory with its ``tests``; Faust's modules are not beside them, so that the installed ones are tested.

    Raises:
        SourceMissingError: it can't be fetched, or has no tests.
    """
    wanted = version(PROJECT)
    directory = KEPT / wanted
    if not directory.exists():
        _fetch(wanted, directory)
    return directory


def _fetch(wanted: str, directory: Path) -> None:
    draft = directory.with_name(f"{directory.name}.new")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    _run(sys.executable, "-m", "venv", str(draft / "pip"))
    pip = [str(draft / "pip" / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--quiet"]
    _run(*pip, "download", "--no-deps", "--no-binary", PROJECT, "--dest", str(draft), f"{PROJECT}=={wanted}")
    (archive,) = draft.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(draft / "unpacked", filter="data")
    (unpacked,) = (draft / "unpacked").iterdir()
    if not (unpacked / "tests" / "unit" / "stores").is_dir():
        raise SourceMissingError(f"the source distribution of {PROJECT} {wanted} has no tests of stores")
    kept = draft / "kept"
    kept.mkdir()
    (unpacked / "tests").rename(kept / "tests")
    kept.rename(directory)
    shutil.rmtree(draft)


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_LIMIT_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise SourceMissingError(f"{' '.join(command)} took longer than {FETCH_LIMIT_S:g} s") from error
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:]
        raise SourceMissingError(f"{' '.join(command)}: {' '.join(last)}")
