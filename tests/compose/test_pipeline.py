"""The shipped docker-compose.yml, run for real: load, kill of a stage, 1 → 3 → 1 containers, outputs as the oracle."""

import json
import os
import shutil
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
EVENTS_PER_S = 1000
SECONDS = 90
"""Of load: long enough for two changes of size on two busy cores."""

SETTLE_LIMIT_S = 120.0
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
            "COORDINATOR_PORT": "0",
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
        """Wait until a one-shot service ends with 0; Compose's own wait knows no container that has ended."""
        (container,) = self("ps", "-a", "-q", service).split()
        status = docker("wait", container).strip()
        assert status == "0", f"{service} ended with {status}\n{self.logs()}"

    def logs(self) -> str:
        """The last lines of every container."""
        return self("logs", "--tail", "30")

    def containers(self, service: str) -> list[str]:
        """Ids of a service's running containers."""
        return self("ps", "-q", service).split()

    def topology(self) -> Any:
        """What the coordinator says, by its published port; None while it does not answer."""
        try:
            address = self("port", "coordinator", "7070").strip()
            token = self("exec", "-T", "coordinator", "cat", "/run/towpath/token").strip()
            request = urllib.request.Request(f"http://{address}/topology", headers={"Authorization": f"Bearer {token}"})
            with urllib.request.urlopen(request, timeout=2) as answer:
                return json.loads(answer.read())
        except (AssertionError, OSError):
            return None

    def await_settled(self, count: int) -> None:
        """Wait until so many counters own tasks, and all of these run with all of their state."""

        def look() -> bool:
            topology = self.topology()
            stages = [] if topology is None else [each for each in topology["stages"] if each["stage"] == "count"]
            return any(each["settled"] and not each["incomplete"] and len(each["members"]) == count for each in stages)

        wait_for(f"{count} counters are settled", look, SETTLE_LIMIT_S, lambda: f"{self.topology()}\n{self.logs()}")


def docker(*arguments: str) -> str:
    """Output of a docker command."""
    return subprocess.run(("docker", *arguments), capture_output=True, text=True, check=True, timeout=LIMIT_S).stdout


def kill_stage(container: str) -> None:
    """Kill -9 the stage's process within a container; its supervisor and its state manager live on."""
    rows = (line.split(None, 1) for line in docker("top", container, "-eo", "pid,args").splitlines()[1:])
    (pid,) = [int(pid) for pid, line in rows if "towpath.cli stage" in line]
    os.kill(pid, 9)


def exit_codes(project: str, since_s: float) -> list[str]:
    """Exit codes of the counters that have ended since a moment, removed ones included."""
    labels = (f"com.docker.compose.project={project}", "com.docker.compose.service=count")
    filters = [part for label in labels for part in ("--filter", f"label={label}")]
    return docker(
        *("events", "--since", f"{since_s:.3f}", "--until", f"{time.time():.3f}", "--filter", "event=die", *filters),
        *("--format", '{{index .Actor.Attributes "exitCode"}}'),
    ).split()


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


def test_outputs_equal_the_oracle_although_counters_come_and_go_and_one_is_killed(compose: Compose) -> None:
    compose("up", "-d")
    compose.await_settled(1)

    compose("up", "-d", "--scale", "count=3")
    compose.await_settled(3)
    victim = compose.containers("count")[0]
    kill_stage(victim)
    wait_for(
        "the killed stage is started again",
        lambda: "stage crashed with status 137 and is started again" in docker("logs", victim),
        SETTLE_LIMIT_S,
        compose.logs,
    )
    compose.await_settled(3)
    before_s = time.time()
    compose("up", "-d", "--scale", "count=1")
    compose.await_settled(1)

    assert exit_codes(compose.project, before_s) == ["0", "0"], compose.logs()
    assert compose("ps", "-q", "load").strip(), "the load was over before the last change: make it longer"
    compose.wait("load")
    compose.wait("latency")
    verdict = json.loads(compose("run", "--rm", "-T", "verify").strip().splitlines()[0])
    assert verdict["outputs"]["input_events"] == EVENTS_PER_S * SECONDS
    assert verdict["outputs"]["mismatches"] == 0
    compose("cp", "latency:/data/latency/summary.json", "-")


def test_containers_stop_cleanly_within_their_grace_period(compose: Compose) -> None:
    services = ["source", "count", "coordinator"]
    begin_s = time.monotonic()
    compose("stop", *services)

    assert time.monotonic() - begin_s < 60, "nobody is there to take over: they need not wait"
    states = compose("ps", "-a", "--format", "{{.Service}} {{.ExitCode}}", *services)
    assert sorted(states.split()) == sorted([part for service in services for part in (service, "0")])
