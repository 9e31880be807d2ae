"""What is asked of Kubernetes, and what is said when that can't be; the requests themselves need a cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client, config
from kubernetes.client.exceptions import ApiException
from urllib3.exceptions import MaxRetryError

from tests.unit.towpath.coordinator.application import STAGE
from towpath.coordinator.errors import PlatformError
from towpath.coordinator.service import run_coordinator
from towpath.coordinator.settings import load_coordinator_settings
from towpath.coordinator.statefulsets import StatefulSets, scale_patch, set_name, stateful_sets
from towpath.errors import SettingsError


class Refusing:
    """An API that answers every request with one error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def read_namespaced_stateful_set_scale(self, *_: Any, **__: Any) -> Any:
        raise self._error


def refused(status: int, message: str) -> ApiException:
    error = ApiException(status=status, reason="Refused")
    error.body = json.dumps({"message": message})
    return error


@pytest.mark.parametrize(
    ("pattern", "stage", "name"),
    [("{stage}", "count", "count"), ("shop-{stage}", "By_Auction", "shop-by-auction")],
)
def test_a_set_is_named_after_its_stage(pattern: str, stage: str, name: str) -> None:
    assert set_name(pattern, stage) == name


def test_a_patch_names_the_number_that_it_replaces() -> None:
    assert scale_patch(2, 3) == [
        {"op": "test", "path": "/spec/replicas", "value": 2},
        {"op": "add", "path": "/spec/replicas", "value": 3},
    ]


def test_a_scale_of_none_has_no_number_to_be_named() -> None:
    assert scale_patch(0, 1) == [{"op": "add", "path": "/spec/replicas", "value": 1}]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (refused(403, "forbidden: no"), "forbidden: no; the coordinator's service account needs get and patch"),
        (refused(404, "not found"), "not found; name each StatefulSet after its stage"),
        (refused(500, "etcd is away"), "StatefulSet count in namespace shop: etcd is away"),
        (ApiException(status=502, reason="Bad Gateway"), "502 Bad Gateway"),
        (MaxRetryError(None, "/apis", None), "the Kubernetes API can't be reached"),  # type: ignore[arg-type]
    ],
)
def test_an_error_has_cause_and_remedy_in_one_line(error: Exception, said: str) -> None:
    sets = StatefulSets(Refusing(error), "shop", "{stage}")
    with pytest.raises(PlatformError) as found:
        sets.read(STAGE)
    assert said in str(found.value)
    assert "\n" not in str(found.value)


def test_an_api_that_is_not_there_is_named() -> None:
    configuration = client.Configuration()
    configuration.host, configuration.retries = "https://127.0.0.1:1", 0
    sets = StatefulSets(client.AppsV1Api(client.ApiClient(configuration)), "shop", "{stage}")
    with pytest.raises(PlatformError, match="can't be reached"):
        sets.read(STAGE)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in a pod, nor with a kubeconfig."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(config.kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "none"))


@pytest.mark.usefixtures("nowhere")
def test_without_a_cluster_the_coordinator_says_so_before_it_starts() -> None:
    with pytest.raises(SettingsError, match="set scaler=none"):
        stateful_sets(None, "{stage}")


def test_without_the_extra_the_coordinator_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "towpath.coordinator.statefulsets", None)
    settings = load_coordinator_settings({"query": "queries.key_count", "scaler": "kubernetes"})
    with pytest.raises(SettingsError, match=r"pip install 'towpath\[kubernetes\]'"):
        run_coordinator(settings)


@pytest.mark.parametrize(("name", "value"), [("scaler", "nomad"), ("kubernetes_name", "count")])
def test_settings_that_can_t_be_are_refused(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name):
        load_coordinator_settings({"query": "queries.key_count", name: value})
