"""Broker tests without Java: skipped with the reason at a desk, failed under CI."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each runs a pytest of its own

ROOT = Path(__file__).parents[4]


def run_without_java(tmp_path: Path, **environment: str) -> str:
    test = tmp_path / "test_it.py"
    test.write_text("def test_uses_the_broker(broker): ...\ndef test_uses_none(): ...\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-rsf", "-p", "tests.harness.broker", "-p", "no:cacheprovider",
         "-c", os.devnull, "-o", "markers=broker", "--rootdir", str(tmp_path), str(test)],
        cwd=ROOT, capture_output=True, text=True, timeout=60, check=False,
        env={"PATH": str(tmp_path), "PYTHONPATH": str(ROOT), **environment},
    )  # fmt: skip
    return done.stdout


def test_at_a_desk_they_are_skipped_with_the_reason(tmp_path: Path) -> None:
    output = run_without_java(tmp_path)
    assert "1 passed, 1 skipped" in output
    assert "Java is missing: install a Java 17" in output


def test_under_ci_they_fail_with_the_reason(tmp_path: Path) -> None:
    output = run_without_java(tmp_path, CI="true")
    assert "1 passed, 1 error" in output or "1 failed, 1 passed" in output
    assert "Java is missing: install a Java 17" in output
