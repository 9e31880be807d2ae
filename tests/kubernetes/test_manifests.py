"""The shipped manifests, rendered by kustomize and taken by a real API server."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.harness import manifests
from tests.harness.manifests import DEPLOY, Document, named, pod_of
from tests.kubernetes.cluster import Cluster, render

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
OVERLAYS = sorted(path.name for path in (DEPLOY / "overlays").iterdir())


def overlay_with(tmp_path: Path, *components: str) -> Path:
    """The production overlay with further components, as a user would write it."""
    directory = tmp_path / "overlay"
    directory.mkdir()
    root = os.path.relpath(DEPLOY, directory)
    lines = [
        "apiVersion: kustomize.config.k8s.io/v1beta1",
        "kind: Kustomization",
        "namespace: towpath",
        f"resources: [{root}/overlays/production]",
        f"components: [{', '.join(f'{root}/components/{component}' for component in components)}]",
    ]
    (directory / "kustomization.yaml").write_text("\n".join(lines))
    return directory


def without_namespace(objects: list[Document]) -> list[Document]:
    return [document for document in objects if document["kind"] != "Namespace"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_an_overlay_is_rendered_checked_and_applied_and_its_pods_are_admitted(cluster: Cluster, overlay: str) -> None:
    objects = render(DEPLOY / "overlays" / overlay)
    assert [problem for document in objects for problem in manifests.problems(document)] == []
    cluster.apply(objects, "--dry-run=server")
    cluster.apply(objects)
    cluster.apply(objects)  # and again, as everybody does
    assert cluster.size("count") == 1
    if cluster.only_pretends():
        cluster.await_pods("count-", 1)
        cluster.await_pods("source-", 1)
        cluster.await_pods("coordinator-", 1)
        cluster("scale", "statefulset/count", "--replicas=3")
        cluster.await_pods("count-", 3)
        cluster.apply(objects)
        assert cluster.size("count") == 3, "applying again has undone what was scaled"
        cluster("rollout", "status", "statefulset/count", "--timeout=30s")


def test_every_stage_is_its_own_set_under_its_own_name(kubectl: None) -> None:
    objects = render(DEPLOY / "key-count")
    for stage in ("source", "count"):
        made = named(objects, "StatefulSet", stage)
        template = made["spec"]["template"]
        chosen = {"app.kubernetes.io/name": "towpath-stage", "app.kubernetes.io/component": stage}
        assert made["spec"]["serviceName"] == stage
        assert made["spec"]["selector"]["matchLabels"] == chosen
        assert chosen.items() <= template["metadata"]["labels"].items()
        assert named(objects, "Service", stage)["spec"]["selector"] == chosen
        assert named(objects, "PodDisruptionBudget", stage)["spec"]["selector"]["matchLabels"] == chosen
        spread = template["spec"]["topologySpreadConstraints"][0]
        assert spread["labelSelector"]["matchLabels"] == chosen
    assert "initContainers" not in (pod_of(named(objects, "StatefulSet", "source")) or {})
    assert named(objects, "StatefulSet", "count")["spec"]["volumeClaimTemplates"]


def test_settings_reach_every_container_and_a_changed_one_restarts_it(kubectl: None) -> None:
    production = render(DEPLOY / "overlays/production")
    (settings,) = (document for document in production if document["kind"] == "ConfigMap")
    assert settings["data"]["TOWPATH_KAFKA_CONFIG"] == "/etc/towpath/kafka.properties"
    assert settings["data"]["TOWPATH_COORDINATOR"].startswith("https://")
    name = settings["metadata"]["name"]
    assert name != "towpath", "its name follows its content"
    for document in production:
        pod = pod_of(document)
        for container in manifests.containers(pod) if pod is not None else []:
            assert container["envFrom"] == [{"configMapRef": {"name": name}}]


def test_probes_of_a_secured_application_fit_it(kubectl: None) -> None:
    production = render(DEPLOY / "overlays/production")
    pods = [pod_of(named(production, "StatefulSet", "count")), pod_of(named(production, "Deployment", "coordinator"))]
    for pod in pods:
        assert pod is not None
        (container,) = pod["containers"]
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            assert container[probe]["httpGet"]["scheme"] == "HTTPS"
    assert pods[0] is not None
    (manager,) = pods[0]["initContainers"]
    assert "grpc" not in manager["startupProbe"]
    assert manager["livenessProbe"]["tcpSocket"] == {"port": "state"}


def test_autoscalers_are_taken(cluster: Cluster, tmp_path: Path) -> None:
    objects = render(overlay_with(tmp_path, "hpa"))
    cluster.apply(without_namespace(objects))
    target = cluster.get("hpa", "count")["spec"]["scaleTargetRef"]
    assert target == {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "count"}


def test_keda_s_are_taken(cluster: Cluster, tmp_path: Path) -> None:
    """By the fields of KEDA's own definition that count here, where KEDA itself is not installed."""
    objects = render(overlay_with(tmp_path, "keda"))
    known = "scaledobjects.keda.sh" in cluster("get", "crd", "-o", "name")
    if not known and not cluster.only_pretends():
        pytest.skip("KEDA is not installed in this cluster")
    definition = str(HERE / "scaledobjects.yaml")
    try:
        if not known:
            cluster("apply", "-f", definition)
            cluster("wait", "--for=condition=established", "crd/scaledobjects.keda.sh", "--timeout=30s")
        cluster.apply(without_namespace(objects))
        assert cluster.get("scaledobject", "count")["spec"]["scaleTargetRef"]["name"] == "count"
    finally:
        if not known:
            cluster("delete", "-f", definition, "--ignore-not-found")


def test_a_field_that_does_not_exist_is_refused(cluster: Cluster) -> None:
    """What the tests above rely on."""
    objects = render(DEPLOY / "key-count")
    named(objects, "StatefulSet", "count")["spec"]["replicaz"] = 3
    with pytest.raises(AssertionError, match="replicaz"):
        cluster.apply(objects, "--dry-run=server")


def test_a_pod_with_more_rights_would_not_be_admitted(cluster: Cluster) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "root"},
        "spec": {"containers": [{"name": "root", "image": "towpath/stage"}]},
    }
    with pytest.raises(AssertionError, match="violates PodSecurity"):
        cluster.apply([pod])
