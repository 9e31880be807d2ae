"""Runs, as processes of this machine, what pods say whose nodes only pretend to run them.

It keeps to a kubelet's order: sidecars start first and are stopped last, each by SIGTERM; a pod's volume outlives it,
and a pod of the same name begins when the former is gone. It does not probe, restart or isolate anything. Every pod has
a loopback address of its own, so that all can have the ports that the manifests say.
"""

from __future__ import annotations

import base64
import os
import re
import sys
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from tests.harness.manifests import Document
from tests.harness.processes import LoggedProcess
from tests.kubernetes.cluster import Cluster

PROGRAMS = {"towpath": "towpath.cli", "statemgr": "statemgr.cli"}
FIRST_ADDRESS = 10
"""Of 127.0.1.0/24; the first ones are left to whatever else may listen there."""


class Process(LoggedProcess):
    """A container."""

    def __init__(self, name: str, command: list[str], environment: Mapping[str, str], log_file: Path) -> None:
        prefix = ["env", *(f"{key}={value}" for key, value in environment.items())]
        super().__init__(name, [*prefix, *command], log_file)


class Pod:
    """The processes of one pod.

    Attributes:
        address: loopback address.
        leaving: whether it was asked to end.
    """

    def __init__(self, name: str, uid: str, address: str, sidecars: list[Process], main: list[Process]) -> None:
        self.name = name
        self.uid = uid
        self.address = address
        self.leaving = False
        self._told = False
        self._sidecars = sidecars
        self._main = main

    @property
    def processes(self) -> list[Process]:
        """All of them, in the order of their starts."""
        return [*self._sidecars, *self._main]

    def start(self) -> None:
        """Start all."""
        for process in self.processes:
            process.start()

    def leave(self) -> None:
        """Ask the main ones to end."""
        self.leaving = True
        for process in self._main:
            if process.alive:
                process.terminate()

    def tend(self) -> bool:
        """What is to be done while it ends: the main ones gone, the sidecars are asked; gives whether all are gone."""
        if any(process.alive for process in self._main):
            return False
        if not self._told:
            self._told = True
            for process in self._sidecars:
                if process.alive:
                    process.terminate()
        return not any(process.alive for process in self._sidecars)

    def statuses(self) -> dict[str, int]:
        """Exit statuses of an ended pod."""
        return {process.name: process.wait() for process in self.processes}

    def close(self) -> None:
        """Leave no process behind."""
        for process in self.processes:
            process.close()

    def describe(self) -> str:
        """What a message should say of it."""
        return "\n".join(process.describe() for process in self.processes)


class Kubelet:
    """All pods of a namespace; :meth:`sync` is to be called again and again, from the main thread.

    Args:
        cluster: where the pods are.
        work_dir: for volumes and logs.
        environment: further variables for every container.
        addresses: pods by how their names begin → address that they get.

    Attributes:
        work_dir: for volumes and logs.
        pods: name → the pod that runs.
        ended: those that have ended by themselves or were asked to.
    """

    def __init__(
        self, cluster: Cluster, work_dir: Path, environment: Mapping[str, str], addresses: Mapping[str, str]
    ) -> None:
        self.work_dir = work_dir
        self.pods: dict[str, Pod] = {}
        self.ended: list[Pod] = []
        self._cluster = cluster
        self._environment = dict(environment)
        self._addresses = dict(addresses)
        self._numbers = count(FIRST_ADDRESS)

    def sync(self) -> None:
        """Start what is new, ask what is no more wanted to end, and forget what is gone."""
        wanted = {pod["metadata"]["name"]: pod for pod in self._cluster.pods()}
        for name, pod in list(self.pods.items()):
            if (name not in wanted or wanted[name]["metadata"]["uid"] != pod.uid) and not pod.leaving:
                pod.leave()
            if pod.leaving and pod.tend():
                self.ended.append(self.pods.pop(name))
        for name, document in wanted.items():
            scheduled = document["spec"].get("nodeName")
            if name not in self.pods and scheduled:
                self.pods[name] = self._made(document)
                self.pods[name].start()

    def close(self) -> None:
        """Leave no process behind."""
        for pod in [*self.pods.values(), *self.ended]:
            pod.close()

    def describe(self) -> str:
        """What a message should say of the pods."""
        return "\n".join(pod.describe() for pod in self.pods.values())

    def _made(self, document: Document) -> Pod:
        metadata, spec = document["metadata"], document["spec"]
        name = metadata["name"]
        given = (address for prefix, address in self._addresses.items() if name.startswith(prefix))
        address = next(given, None) or f"127.0.1.{next(self._numbers)}"
        volumes = {volume["name"]: self._volume(name, volume) for volume in spec.get("volumes", [])}

        def made(container: Document) -> Process:
            variables = dict(self._variables(container, metadata, address))
            mounts = {mount["mountPath"]: volumes[mount["name"]] for mount in container.get("volumeMounts", [])}
            words = [_filled(word, variables) for word in [*container["command"], *container.get("args", [])]]
            program = [sys.executable, "-m", PROGRAMS[words[0]]]
            return Process(
                f"{name}/{container['name']}",
                [*program, *(_mapped(word, mounts) for word in words[1:])],
                {**{key: _mapped(value, mounts) for key, value in variables.items()}, **self._environment},
                self.work_dir / f"{name}.{container['name']}.log",
            )

        sidecars = [made(each) for each in spec.get("initContainers", []) if each.get("restartPolicy") == "Always"]
        return Pod(name, metadata["uid"], address, sidecars, [made(each) for each in spec["containers"]])

    def _variables(self, container: Document, metadata: Document, address: str) -> Iterator[tuple[str, str]]:
        for source in container.get("envFrom", []):
            yield from self._cluster.get("configmap", source["configMapRef"]["name"])["data"].items()
        for entry in container.get("env", []):
            value = entry.get("value")
            if value is None:
                value = _field(entry["valueFrom"]["fieldRef"]["fieldPath"], metadata, address)
            # Where it would listen at all addresses, it listens at its own, as if it had a network of its own.
            yield entry["name"], address if value == "0.0.0.0" else value

    def _volume(self, pod: str, volume: dict[str, Any]) -> Path:
        directory = self.work_dir / pod / volume["name"]
        directory.mkdir(parents=True, exist_ok=True)
        for source in volume.get("projected", {}).get("sources", []):
            if "secret" in source:
                self._write_secret(source["secret"], directory)
        return directory

    def _write_secret(self, source: dict[str, Any], directory: Path) -> None:
        names = {secret["metadata"]["name"] for secret in self._cluster.get("secrets")["items"]}
        if source.get("optional") and source["name"] not in names:
            return
        data = self._cluster.get("secret", source["name"])["data"]
        for item in source.get("items", [{"key": key, "path": key} for key in data]):
            path = directory / item["path"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(base64.b64decode(data[item["key"]]))


def _field(path: str, metadata: Document, address: str) -> str:
    if path == "status.podIP":
        return address
    label = re.fullmatch(r"metadata\.labels\['(.+)'\]", path)
    return str(metadata["labels"][label[1]] if label else metadata[path.removeprefix("metadata.")])


def _filled(word: str, variables: Mapping[str, str]) -> str:
    """``$(NAME)`` replaced, as the kubelet does."""
    return re.sub(r"\$\(([A-Za-z_]+)\)", lambda found: variables.get(found[1], found[0]), word)


def _mapped(word: str, mounts: Mapping[str, Path]) -> str:
    """Paths within a volume become those of its directory here."""
    for mount in sorted(mounts, key=len, reverse=True):
        word = re.sub(rf"(^|=){re.escape(mount)}(?=/|$)", lambda found: f"{found[1]}{mounts[mount]}", word)  # noqa: B023
    return word


def environment_of(bootstrap: str, kubeconfig: Path, work_dir: Path) -> dict[str, str]:
    """What takes the place of a cluster's names, network and accounts."""
    return {
        "TOWPATH_BOOTSTRAP": bootstrap,
        "KUBECONFIG": str(kubeconfig),
        "HOME": str(work_dir),
        "LD_PRELOAD": os.environ.get("LD_PRELOAD", ""),
    }
