"""The wheels: they build, and the libraries and queries install and work without Spark."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES = ("nexmark", "towpath-native", "statemgr", "towpath", "towpath-queries")

pytestmark = pytest.mark.slow


def uv() -> str:
    found = shutil.which("uv") or shutil.which("uv", path=str(ROOT / ".venv-uv" / "bin"))
    if found is None:
        pytest.skip("uv is neither on PATH nor in .venv-uv; `make setup` installs it")
    return found


def run(*command: str, cwd: Path = ROOT) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_wheels_install_and_plan_a_query_without_spark(tmp_path: Path) -> None:
    dist, environment = tmp_path / "dist", tmp_path / "venv"
    for package in LIBRARIES:
        run(uv(), "build", "--quiet", "--wheel", "--package", package, "--out-dir", str(dist))
    run(uv(), "venv", "--quiet", "--python", sys.executable, str(environment))
    python = str(environment / "bin" / "python")
    run(uv(), "pip", "install", "--quiet", "--python", python, *map(str, sorted(dist.glob("*.whl"))), cwd=tmp_path)

    plan = run(str(environment / "bin" / "towpath"), "plan", "queries.key_count", "--format", "json", cwd=tmp_path)
    spark = run(python, "-c", "import importlib.util as u; print(u.find_spec('pyspark'))", cwd=tmp_path)

    assert '"count"' in plan
    assert spark.strip() == "None"
