"""What the manifests under ``deploy/kubernetes`` must be like, as they lie there and as kustomize renders them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"

Document = dict[str, Any]

FOREIGN = {"apache/kafka"}
"""Images of others, which write where they like."""

ONE_SHOT = {"Job", "CronJob"}
"""Kinds whose containers end by themselves: nobody probes them."""

MONITORED = {"startupProbe", "livenessProbe"}


def files() -> list[Path]:
    """All manifests and patches, without kustomizations."""
    return sorted(path for path in DEPLOY.rglob("*.yaml") if path.name != "kustomization.yaml")


def documents(text: str) -> list[Document]:
    """The objects of a YAML stream."""
    return [document for document in yaml.safe_load_all(text) if document]


def all_documents() -> list[Document]:
    """Everything in :func:`files`."""
    return [document for path in files() for document in documents(path.read_text())]


def kustomizations() -> list[Document]:
    """All kustomizations and components."""
    return [yaml.safe_load(path.read_text()) for path in sorted(DEPLOY.rglob("kustomization.yaml"))]


def named(found: Iterable[Document], kind: str, name: str) -> Document:
    """The object of that kind and name."""
    (document,) = (each for each in found if each["kind"] == kind and each["metadata"]["name"] == name)
    return document


def pod_of(document: Document) -> Document | None:
    """The pod's specification within an object that makes pods; None: it makes none."""
    spec = document.get("spec", {})
    spec = spec.get("jobTemplate", {}).get("spec", spec)
    pod: Document | None = spec.get("template", {}).get("spec")
    return pod


def containers(pod: Document) -> list[Document]:
    """All containers of a pod, sidecars included."""
    return [*pod.get("initContainers", []), *pod.get("containers", [])]


def literals() -> dict[str, set[str]]:
    """Settings that kustomizations generate: name → values."""
    found: dict[str, set[str]] = {}
    for each in kustomizations():
        for generator in each.get("configMapGenerator", []):
            for literal in generator["literals"]:
                name, _, value = literal.partition("=")
                found.setdefault(name, set()).add(value)
    return found


def problems(document: Document, *, patch: bool = False) -> list[str]:
    """What is missing in an object to be well-behaved; ``patch``: what stands in the pod itself is not looked at."""
    pod = pod_of(document)
    if pod is None:
        return []
    where = f"{document['kind']} {document['metadata']['name']}"
    found = [] if patch else [f"{where}: {problem}" for problem in _pod_problems(pod)]
    for container in containers(pod):
        probed = document["kind"] not in ONE_SHOT
        found += [f"{where}/{container['name']}: {problem}" for problem in _container_problems(container, probed)]
    return found


def _pod_problems(pod: Document) -> Iterator[str]:
    security = pod.get("securityContext", {})
    if not (security.get("runAsNonRoot") and security.get("runAsUser") and security.get("fsGroup")):
        yield "runs as root"
    if security.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "no seccomp profile"
    if pod.get("enableServiceLinks") is not False:
        yield "services' addresses are put among the settings"
    if pod.get("automountServiceAccountToken") is not (pod.get("serviceAccountName") == "towpath-coordinator"):
        yield "a token of the API for somebody who needs none, or none for the coordinator"
    if not pod.get("terminationGracePeriodSeconds") and pod.get("restartPolicy") not in {"OnFailure", "Never"}:
        yield "no grace period"


def _container_problems(container: Document, probed: bool) -> Iterator[str]:
    limits, requests = (container.get("resources", {}).get(name, {}) for name in ("limits", "requests"))
    if set(limits) != {"cpu", "memory"} or set(requests) != {"cpu", "memory"}:
        yield "cpu and memory have no request or no limit"
    security = container.get("securityContext", {})
    if security.get("allowPrivilegeEscalation") is not False or security.get("capabilities") != {"drop": ["ALL"]}:
        yield "has capabilities"
    if not security.get("readOnlyRootFilesystem") and container["image"].partition(":")[0] not in FOREIGN:
        yield "writes into its image"
    if probed and not container.keys() >= MONITORED:
        yield "is not probed"
    if container.get("imagePullPolicy") != "IfNotPresent":
        yield "an image that is there is pulled"


def doc_commands() -> list[str]:
    """The commands of the page about Kubernetes, in order."""
    page = (DEPLOY.parents[1] / "docs" / "kubernetes.md").read_text()
    blocks = re.findall(r"```sh\n(.*?)```", page, re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line]
