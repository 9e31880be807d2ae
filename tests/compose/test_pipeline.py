"""The shipped docker-compose.yml, run for real: load, kill of a stage, outputs equal to the batch oracle."""

import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EVENTS_PER_S = 1000
SECONDS = 30
LIMIT_S = 600
"""One step: building both images from an empty cache takes minutes, the run itself two."""

pytestmark = [pytest.mark.compose, pytest.mark.slow, pytest.mark.timeout(3 * LIMIT_S)]


def engine_missing() -> str | None:
    """Why there is no Docker engine with Compose v2 here, or None."""
    if shutil.which("docker") is None:
        return "docker is not installed"
    for command in (("docker", "info"), ("docker", "compose", "version")):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            return f"{' '.join(command)}: {(done.stderr or done.stdout).strip().splitlines()[-1]}"
    return None


class Compose:
    """The shipped file under a project name of its own."""

    def __init__(self) -> None:
        self.project = f"towpath-test-{uuid.uuid4().hex[:8]}"
        self.environment = {
            **os.environ,
            "COMPOSE_PROJECT_NAME": self.project,
            "RATE": str(EVENTS_PER_S),
            "DURATION": f"{SECONDS}s",
            "UNTIL_IDLE": "20s",
            "KAFKA_PORT": "0",
        }

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(
            ("docker", "compose", *arguments),
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"docker compose {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def wait(self, service: str) -> None:
        """Wait until a one-shot service ends with 0."""
        try:
            self("wait", service)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self('logs', '--tail', '30')}") from error


@pytest.fixture(scope="module")
def compose() -> Iterator[Compose]:
    missing = engine_missing()
    if missing is not None:
        pytest.skip(missing)
    project = Compose()
    try:
        project("build")
        yield project
    finally:
        subprocess.run(
            ("docker", "compose", "--profile", "check", "down", "-v", "--remove-orphans"),
            cwd=ROOT,
            env=project.environment,
            capture_output=True,
            timeout=LIMIT_S,
            check=False,
        )


def test_outputs_equal_the_oracle_although_a_counter_is_killed_under_load(compose: Compose) -> None:
    compose("up", "-d")
    container = compose("ps", "-q", "count-0").strip()
    pid = subprocess.run(
        ("docker", "inspect", "-f", "{{.State.Pid}}", container), capture_output=True, text=True, check=True
    ).stdout.strip()
    os.kill(int(pid), 9)
    compose.wait("load")
    compose.wait("latency")

    verdict = json.loads(compose("run", "--rm", "-T", "verify").strip().splitlines()[0])

    assert verdict["outputs"]["input_events"] == EVENTS_PER_S * SECONDS
    assert verdict["outputs"]["mismatches"] == 0
    restarts = subprocess.run(
        ("docker", "inspect", "-f", "{{.RestartCount}}", container), capture_output=True, text=True, check=True
    ).stdout
    assert int(restarts) >= 1
    compose("cp", "latency:/data/latency/summary.json", "-")


def test_stages_stop_cleanly_within_their_grace_period(compose: Compose) -> None:
    compose("stop", "source", "count-0", "count-1")

    states = compose("ps", "-a", "--format", "{{.Service}} {{.ExitCode}}", "source", "count-0", "count-1")

    assert sorted(states.split()) == sorted(["source", "0", "count-0", "0", "count-1", "0"])
