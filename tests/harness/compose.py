"""The shipped docker-compose.yml under a project name of its own, on a real engine."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import urllib.request
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.harness.waiting import wait_for
from towpath.broker.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
SETTLE_LIMIT_S = 120.0
"""For a change of size on two busy cores."""

TAG = "test"
"""Of the images that tests build, so that nobody else's are replaced."""

STEP_LIMIT_S = 600
"""One command: building the images from an empty cache takes minutes."""


def engine_missing() -> str | None:
    """Why there is no Docker engine with Compose v2 here, or None."""
    if shutil.which("docker") is None:
        return "docker is not installed"
    for command in (("docker", "info"), ("docker", "compose", "version")):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            return f"{' '.join(command)}: {(done.stderr or done.stdout).strip().splitlines()[-1]}"
    return None


def docker(*arguments: str, check: bool = True) -> str:
    """What a docker command says on standard output."""
    done = subprocess.run(("docker", *arguments), capture_output=True, text=True, check=False, timeout=STEP_LIMIT_S)
    assert done.returncode == 0 or not check, f"docker {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def image_missing(image: str) -> str | None:
    """Why an image of somebody else can't be had here, or None; it is pulled unless it is there."""
    if docker("image", "ls", "-q", image).strip():
        return None
    done = subprocess.run(
        ("docker", "pull", "-q", image), capture_output=True, text=True, timeout=STEP_LIMIT_S, check=False
    )
    return None if done.returncode == 0 else f"{image} can't be pulled: {done.stderr.strip().splitlines()[-1]}"


def text_of(url: str, token: str | None = None) -> str:
    """Body of an answer."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5) as answer:
        return str(answer.read().decode())


class Compose:
    """One project of the shipped file.

    Args:
        files: further files, whose paths are relative to the repository.
        settings: those of ``.env.example``.

    Attributes:
        typed: command lines of the documentation that were run.
    """

    def __init__(self, files: Sequence[str] = (), **settings: str | int) -> None:
        self.project = f"towpath-test-{uuid.uuid4().hex[:8]}"
        self.typed: set[str] = set()
        self._token: str | None = None
        ports: list[int] = []
        for _ in range(4):
            ports.append(free_port(ports))
        names = ("KAFKA_PORT", "COORDINATOR_PORT", "PROMETHEUS_PORT", "GRAFANA_PORT")
        self.ports = dict(zip(names, ports, strict=True))
        given = {**self.ports, "TAG": TAG, "RATE": 1000, "UNTIL_IDLE": "20s", **settings}
        self.environment = {
            **os.environ,
            "COMPOSE_PROJECT_NAME": self.project,
            "COMPOSE_FILE": ":".join(str(ROOT / file) for file in ("docker-compose.yml", *files)),
            **{name: str(value) for name, value in given.items()},
        }

    @property
    def bootstrap(self) -> str:
        """Kafka's address from outside."""
        return f"127.0.0.1:{self.ports['KAFKA_PORT']}"

    def shell(self, command: str, directory: Path = ROOT) -> str:
        """Run a command line as it stands in the documentation, and give its standard output."""
        self.typed.add(command)
        done = subprocess.run(
            ("bash", "-c", command),
            cwd=directory,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=STEP_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}\n{self.logs()}"
        return done.stdout

    def __call__(self, *arguments: str, check: bool = True) -> str:
        """Run ``docker compose …`` and give its standard output."""
        done = subprocess.run(
            ("docker", "compose", *arguments),
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=STEP_LIMIT_S,
            check=False,
        )
        assert done.returncode == 0 or not check, f"docker compose {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def remove(self) -> None:
        """Leave nothing of the project."""
        self("--profile", "*", "down", "-v", "--remove-orphans", "--timeout", "5", check=False)

    def logs(self, *services: str) -> str:
        """The last lines of every container, or of those of some services."""
        return self("logs", "--tail", "40", *services, check=False)

    def containers(self, service: str) -> list[str]:
        """Ids of a service's running containers."""
        return self("ps", "-q", service).split()

    def await_exit(self, service: str) -> None:
        """Wait until a job ends with 0; Compose's own wait knows no container that has ended."""
        (container,) = self("ps", "-a", "-q", service).split()
        status = docker("wait", container).strip()
        assert status == "0", f"{service} ended with {status}\n{self.logs()}"

    def ask(self, path: str) -> Any:
        """What the coordinator answers, by its published port; None while it does not."""
        if self._token is None:
            self._token = self("exec", "-T", "coordinator", "cat", "/run/towpath/token", check=False).strip() or None
        try:
            return json.loads(text_of(f"http://127.0.0.1:{self.ports['COORDINATOR_PORT']}{path}", self._token))
        except OSError:
            return None

    def members(self, stage: str) -> list[str] | None:
        """Replicas that own a stage's tasks, once all of these run with all of their state; None before."""
        topology = self.ask("/topology")
        for each in [] if topology is None else topology["stages"]:
            if each["stage"] == stage and each["settled"] and not each["incomplete"]:
                return list(each["members"])
        return None

    def await_settled(self, stage: str, count: int, within_s: float = SETTLE_LIMIT_S) -> None:
        """Wait until so many replicas own a stage's tasks, and all of these run with all of their state."""
        wait_for(
            f"{count} replicas of {stage} are settled",
            lambda: len(self.members(stage) or ()) == count,
            within_s,
            lambda: f"{self.ask('/topology')}\n{self.logs()}",
        )

    def exit_codes(self, service: str, since_s: float) -> list[str]:
        """Exit codes of a service's containers that have ended since a moment, removed ones included."""
        labels = (f"com.docker.compose.project={self.project}", f"com.docker.compose.service={service}")
        filters = [part for label in labels for part in ("--filter", f"label={label}")]
        moments = ("--since", f"{since_s:.3f}", "--until", f"{time.time():.3f}")
        form = '{{index .Actor.Attributes "exitCode"}}'
        return docker("events", *moments, "--filter", "event=die", *filters, "--format", form).split()

    def verify(self) -> dict[str, Any]:
        """Compare the sink with the batch computation; the verdict on its outputs."""
        said = self("run", "--rm", "-T", "verify", check=False)
        (line,) = re.findall(r"^\{.*\}$", said, re.MULTILINE)
        verdict: dict[str, Any] = json.loads(line)["outputs"]
        return verdict


def kill_process(container: str, part: str) -> None:
    """Kill -9 one process within a container, found by its command line; the others live on."""
    rows = (line.split(None, 1) for line in docker("top", container, "-eo", "pid,args").splitlines()[1:])
    (pid,) = [int(pid) for pid, line in rows if part in line]
    os.kill(pid, 9)
