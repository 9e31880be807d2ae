"""The replicas of Kubernetes: each stage is a StatefulSet, whose scale subresource says how many there are to be.

Needs the extra ``towpath[kubernetes]``. In a pod the service account of that pod is used, which needs ``get`` and
``patch`` of ``statefulsets/scale`` and nothing else; elsewhere the kubeconfig.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import HTTPError

from towpath.coordinator.errors import PlatformError
from towpath.errors import SettingsError

REQUEST_TIMEOUT_S = 5.0
"""An API server answers within some 10 ms; one that takes longer than this is away."""

NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
"""Where a pod finds the name of its namespace."""

_REMEDY = {
    403: "the coordinator's service account needs get and patch of statefulsets/scale for it",
    404: "name each StatefulSet after its stage, or say how they are named by the setting kubernetes_name",
    422: "another number was set at the same moment",
}

T = TypeVar("T")


class StatefulSets:
    """StatefulSets of one namespace.

    Args:
        api: the client's ``AppsV1Api``.
        namespace: where they are.
        name: how they are named; ``{stage}`` stands for the stage's name.
    """

    def __init__(self, api: client.AppsV1Api, namespace: str, name: str) -> None:
        self._api = api
        self._namespace = namespace
        self._name = name

    def read(self, stage: str) -> int:
        """See :class:`~towpath.coordinator.scaler.Replicas`."""
        name = set_name(self._name, stage)
        scale = self._ask(
            name,
            lambda: self._api.read_namespaced_stateful_set_scale(
                name, self._namespace, _request_timeout=REQUEST_TIMEOUT_S
            ),
        )
        return (scale.spec.replicas if scale.spec is not None else None) or 0

    def write(self, stage: str, size: int, replicas: int) -> None:
        """See :class:`~towpath.coordinator.scaler.Replicas`."""
        name, change = set_name(self._name, stage), scale_patch(size, replicas)
        self._ask(
            name,
            lambda: self._api.patch_namespaced_stateful_set_scale(
                name, self._namespace, change, _request_timeout=REQUEST_TIMEOUT_S
            ),
        )

    def _ask(self, name: str, request: Callable[[], T]) -> T:
        what = f"StatefulSet {name} in namespace {self._namespace}"
        try:
            return request()
        except ApiException as error:
            remedy = _REMEDY.get(error.status)
            raise PlatformError(f"{what}: {_message(error)}" + (f"; {remedy}" if remedy else "")) from error
        except (HTTPError, OSError) as error:
            raise PlatformError(f"{what}: the Kubernetes API can't be reached: {error}") from error


def set_name(name: str, stage: str) -> str:
    """Name of a stage's StatefulSet; names of Kubernetes have small letters and no underscores."""
    return name.replace("{stage}", stage.lower().replace("_", "-"))


def scale_patch(size: int, replicas: int) -> list[dict[str, Any]]:
    """A JSON patch of a scale that fails if it is not ``size`` any more. A scale of 0 does not name its number."""
    expected = [{"op": "test", "path": "/spec/replicas", "value": size}] if size else []
    return [*expected, {"op": "add", "path": "/spec/replicas", "value": replicas}]


def stateful_sets(namespace: str | None, name: str) -> StatefulSets:
    """Those of a namespace; None: of the one that this pod runs in, or that the kubeconfig names.

    Raises:
        SettingsError: there is neither a pod's service account nor a kubeconfig that can be used.
    """
    configuration = client.Configuration()
    own = _load(configuration)
    configuration.retries = 0  # the next turn asks again
    return StatefulSets(client.AppsV1Api(client.ApiClient(configuration)), namespace or own, name)


def _load(configuration: client.Configuration) -> str:
    """Address and credentials; gives the namespace that belongs to them."""
    try:
        config.load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        return NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    except config.ConfigException:
        pass
    try:
        config.load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        _, active = config.list_kube_config_contexts()  # type: ignore[no-untyped-call]
    except (config.ConfigException, OSError) as error:
        raise SettingsError(
            f"scaler=kubernetes: no service account of a pod here, and no kubeconfig: {error}; run the coordinator in "
            "a pod, set KUBECONFIG, or set scaler=none"
        ) from error
    return str(active["context"].get("namespace") or "default")


def _message(error: ApiException) -> str:
    """What the API server says, in one line."""
    try:
        return str(json.loads(error.body or "")["message"])
    except (TypeError, ValueError, KeyError):
        return f"{error.status} {error.reason}"
