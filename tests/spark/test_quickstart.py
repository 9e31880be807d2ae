"""The quick start's processes, as they are typed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.documented import blocks
from towpath.broker.ports import is_port_free

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(600)]

PORTS = (9092, 7070)
PREPARATION = ("make setup", ". .venv/bin/activate")
LIMIT_S = 500


def test_every_line_of_it_works(tmp_path: Path) -> None:
    taken = [port for port in PORTS if not is_port_free(port)]
    if taken:
        pytest.skip(f"somebody uses port {taken[0]}, which the quick start names")
    (block,) = [block for block in blocks("docs/quickstart.md") if block[: len(PREPARATION)] == [*PREPARATION]]
    script = "\n".join(["set -e", *block[len(PREPARATION) :]])
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    try:
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=tmp_path,
            env={**os.environ, "PATH": path},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        assert "mismatches" in done.stderr
        assert (tmp_path / "build" / "latency" / "report.html").exists()
    finally:
        subprocess.run(["towpath", "broker", "stop"], cwd=tmp_path, env={**os.environ, "PATH": path}, check=False)
