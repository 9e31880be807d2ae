"""The cluster of a test run, by kubectl: what is rendered, applied, and there."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import uuid
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.harness.manifests import DEPLOY, Document, documents
from tests.harness.waiting import wait_for

LIMIT_S = 60.0
"""One command; an API server answers within a second."""

READY_LIMIT_S = 60.0
"""Pods that nodes only pretend to run are ready within two seconds."""

OLDEST_KUBECTL = 29
"""Minor version of 1.x from which on kubectl renders and checks what the manifests use."""

NAMESPACE = "towpath"
"""That of the manifests."""

TOKEN = "a-token-of-the-tests-of-kubernetes"
"""Of a test's services alone."""

_ENVIRONMENT = {**os.environ, "KUBECTL_KUBERC": "false"}


def cluster_missing(environment: Mapping[str, str]) -> str | None:
    """Why there is no cluster here, or None."""
    if not environment.get("KUBECONFIG"):
        return "KUBECONFIG is not set: there is no cluster"
    if shutil.which("kubectl") is None:
        return "kubectl is not installed"
    done = _run("version", "-o", "json", check=False)
    try:
        versions = json.loads(done.stdout)
        minor = int(versions["clientVersion"]["minor"].rstrip("+"))
    except (ValueError, KeyError):
        return f"kubectl version: {(done.stderr or done.stdout).strip()}"
    if minor < OLDEST_KUBECTL:
        return f"kubectl is of version 1.{minor}, and 1.{OLDEST_KUBECTL} is needed"
    if "serverVersion" not in versions:
        return f"no API server answers: {done.stderr.strip()}"
    return None


def render(directory: Path) -> list[Document]:
    """What kustomize makes of a directory."""
    return documents(_run("kustomize", str(directory)).stdout)


class Cluster:
    """A namespace of this run.

    Attributes:
        namespace: its name.
    """

    def __init__(self) -> None:
        self.namespace = f"towpath-test-{uuid.uuid4().hex[:8]}"

    def __call__(self, *arguments: str, given: str | None = None) -> str:
        """Output of a kubectl command in the namespace.

        Raises:
            AssertionError: it has failed; with all that it said.
        """
        done = _run("-n", self.namespace, *arguments, given=given, check=False)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def get(self, kind: str, *arguments: str) -> Any:
        """Objects as JSON."""
        return json.loads(self("get", kind, *arguments, "-o", "json"))

    def prepare(self) -> None:
        """Make the namespace as the manifests do, and the Secret that all services need."""
        self.apply(documents((DEPLOY / "base/namespace.yaml").read_text()))
        self("create", "secret", "generic", "towpath-token", f"--from-literal=token={TOKEN}")

    def apply(self, objects: Iterable[Document], *options: str) -> str:
        """Apply objects here, on the server's side and strictly, wherever they would be else."""
        moved = [self._moved(document) for document in objects]
        given = yaml.safe_dump_all(moved)
        return self("apply", "--server-side", "--validate=strict", *options, "-f", "-", given=given)

    def pods(self, *, ended: bool = False) -> list[Document]:
        """Pods that are there and not about to go."""
        found = self.get("pods")["items"]
        return [
            pod
            for pod in found
            if not pod["metadata"].get("deletionTimestamp")
            and (ended or pod["status"].get("phase") not in {"Succeeded", "Failed"})
        ]

    def await_pods(self, prefix: str, count: int) -> None:
        """Wait until so many pods whose names begin so are ready, and no others."""

        def ready(pod: Document) -> bool:
            return any(
                each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions", [])
            )

        def look() -> bool:
            found = [pod for pod in self.pods() if pod["metadata"]["name"].startswith(prefix)]
            return len(found) == count and all(ready(pod) for pod in found)

        wait_for(f"{count} pods {prefix}… are ready", look, READY_LIMIT_S, lambda: self("get", "pods,events"))

    def size(self, stage: str) -> int:
        """How many replicas a StatefulSet is to run."""
        return int(self.get("statefulset", stage)["spec"]["replicas"])

    def kubeconfig(self, account: str, directory: Path) -> Path:
        """A kubeconfig with the rights of a service account of the namespace and no others."""
        token = self("create", "token", account).strip()
        config = json.loads(_run("config", "view", "--raw", "--minify", "-o", "json").stdout)
        config["users"] = [{"name": account, "user": {"token": token}}]
        context = {"cluster": config["clusters"][0]["name"], "user": account, "namespace": self.namespace}
        config["contexts"] = [{"name": account, "context": context}]
        config["current-context"] = account
        path = directory / f"{account}.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def only_pretends(self) -> bool:
        """Whether no node of the cluster runs anything."""
        nodes = self.get("nodes")["items"]
        return all("kwok.x-k8s.io/node" in node["metadata"].get("annotations", {}) for node in nodes)

    def close(self) -> None:
        """Delete everything, and let go of volumes that a cluster keeps for us."""
        _run("delete", "namespace", self.namespace, "--ignore-not-found", check=False)
        volumes = json.loads(_run("get", "pv", "-o", "json", check=False).stdout or '{"items": []}')["items"]
        for volume in volumes:
            claim = volume["spec"].get("claimRef")
            if claim and claim["namespace"] == self.namespace:
                change = '[{"op": "remove", "path": "/spec/claimRef"}]'
                _run("patch", "pv", volume["metadata"]["name"], "--type=json", "-p", change, check=False)

    def _moved(self, document: Document) -> Document:
        """The same in this namespace."""
        text = json.dumps(document)
        moved: Document = json.loads(text.replace(f'"namespace": "{NAMESPACE}"', f'"namespace": "{self.namespace}"'))
        if moved["kind"] == "Namespace":
            moved["metadata"]["name"] = self.namespace
        return moved


@contextlib.contextmanager
def namespace() -> Iterator[Cluster]:
    """A namespace that is gone in the end."""
    made = Cluster()
    try:
        made.prepare()
        yield made
    finally:
        made.close()


def _run(*arguments: str, given: str | None = None, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        ("kubectl", *arguments),
        input=given,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
        env=_ENVIRONMENT,
    )
    assert not check or done.returncode == 0, f"kubectl {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
    return done
