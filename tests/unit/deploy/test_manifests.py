"""The manifests for Kubernetes, as they lie in the repository: hardened, bounded, true to what the programs know."""

from __future__ import annotations

import ast
import copy
import re
from functools import cache
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperCommand, TyperGroup

import statemgr.cli
import towpath.cli
from loadgen.cli import app as load_app
from statemgr.layout import consumer_group
from statemgr.sidecar.server import SERVICE
from tests.harness import manifests
from tests.harness.manifests import DEPLOY, all_documents, containers, documents, literals, named, pod_of
from tests.harness.processes import REPOSITORY, STOP_LIMIT_S
from towpath.coordinator.metrics import CoordinatorMetrics
from towpath.coordinator.settings import CoordinatorSettings
from towpath.launch.allocator import LIBRARY
from towpath.query.loading import load_query
from towpath.stage.settings import StageSettings

SETTING = re.compile(r"TOWPATH_[A-Z_]+")
OF_EVERY_SERVICE = {"TOWPATH_TOKEN_FILE", *(f"TOWPATH_TLS_{part}" for part in ("CERT", "KEY", "CA", "NAME"))}
SOURCES = ("libs/towpath/src", "libs/statemgr/src", "loadgen/src")
PLAN = load_query("queries.key_count")


@cache
def settings() -> frozenset[str]:
    """Every variable that some program reads: fields of settings, and names in the sources."""
    fields = {f"TOWPATH_{name.upper()}" for name in StageSettings.model_fields}
    fields |= {f"TOWPATH_COORDINATOR_{name.upper()}" for name in CoordinatorSettings.model_fields}
    for root in SOURCES:
        for path in (REPOSITORY / root).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str) and SETTING.fullmatch(node.value):
                    fields.add(node.value)
    return frozenset(fields | OF_EVERY_SERVICE)


def command_of(words: list[str]) -> TyperCommand:
    """What a container runs."""
    program, *rest = words
    apps = {"towpath": towpath.cli.app, "statemgr": statemgr.cli.app, "towpath-load": load_app}
    found = typer.main.get_command(apps[program])
    while isinstance(found, TyperGroup) and rest:
        found = found.commands[rest.pop(0)]
    return found


def words(container: dict) -> list[str]:
    """Its command line."""
    return [*container["command"], *container.get("args", [])]


def stage_set() -> dict:
    """The StatefulSet that every stage is made of."""
    return named(documents((DEPLOY / "stage/stage.yaml").read_text()), "StatefulSet", "stage")


def stage_pod() -> dict:
    """Its pod."""
    pod = pod_of(stage_set())
    assert pod is not None
    return pod


def own_containers() -> list[dict]:
    pods = [pod for document in all_documents() if (pod := pod_of(document)) is not None]
    return [container for pod in pods for container in containers(pod) if "command" in container]


@pytest.mark.parametrize("path", manifests.files(), ids=lambda path: str(path.relative_to(DEPLOY)))
def test_every_container_is_bounded_probed_and_without_rights(path: Path) -> None:
    patch = "components/state" in str(path)
    found = [problem for each in documents(path.read_text()) for problem in manifests.problems(each, patch=patch)]
    assert found == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda pod, container: pod["securityContext"].pop("runAsNonRoot"), "runs as root"),
        (lambda pod, container: pod.pop("enableServiceLinks"), "among the settings"),
        (lambda pod, container: pod.update(automountServiceAccountToken=True), "a token of the API"),
        (lambda pod, container: container["resources"]["limits"].pop("memory"), "no limit"),
        (lambda pod, container: container["securityContext"].pop("capabilities"), "capabilities"),
        (lambda pod, container: container["securityContext"].pop("readOnlyRootFilesystem"), "writes"),
        (lambda pod, container: container.pop("livenessProbe"), "not probed"),
    ],
)
def test_what_is_missing_is_found(change, problem: str) -> None:
    stage = copy.deepcopy(stage_set())
    pod = stage["spec"]["template"]["spec"]
    change(pod, pod["containers"][0])
    assert problem in "; ".join(manifests.problems(stage))


def test_every_setting_is_one_that_some_program_reads() -> None:
    named_in_pods = {entry["name"] for container in own_containers() for entry in container.get("env", [])}
    used = {name for name in named_in_pods | literals().keys() if name.startswith("TOWPATH_")}
    assert used - settings() == set()
    assert "TOWPATH_NO_SUCH_SETTING" not in settings()


def test_every_option_of_a_command_line_exists() -> None:
    seen = 0
    for container in own_containers():
        line = words(container)
        known = {option for parameter in command_of(line).params for option in parameter.opts}
        given = [word.partition("=")[0] for word in line if word.startswith("--")]
        assert set(given) <= known, f"{' '.join(line)}: {set(given) - known}"
        seen += len(given)
    assert seen > 10


def test_variables_of_a_command_line_are_set() -> None:
    for container in own_containers():
        own = {entry["name"] for entry in container.get("env", [])} | literals().keys()
        used = set(re.findall(r"\$\(([A-Z_]+)\)", " ".join(words(container))))
        assert used <= own, f"{container['name']}: {used - own}"


def test_the_grace_period_is_enough_for_stage_and_state_manager_one_after_the_other() -> None:
    pod = stage_pod()
    drain_s = next(float(each["value"]) for each in pod["containers"][0]["env"] if each["name"] == "TOWPATH_DRAIN_S")
    manager = manager_container()
    (leave,) = [word for word in manager["args"] if word.startswith("--leave-after-s=")]
    needed_s = drain_s + STOP_LIMIT_S + float(leave.partition("=")[2])
    assert needed_s < pod["terminationGracePeriodSeconds"]


def manager_container() -> dict:
    """The state manager."""
    (patch,) = documents((DEPLOY / "components/state/state.yaml").read_text())
    (container,) = patch["spec"]["template"]["spec"]["initContainers"]
    return container


def test_the_state_manager_is_stopped_after_the_stage() -> None:
    """Kubernetes' own sidecars are: init containers that are always restarted."""
    assert manager_container()["restartPolicy"] == "Always"


def test_the_state_manager_is_probed_by_the_name_that_it_knows() -> None:
    assert manager_container()["startupProbe"]["grpc"]["service"] == SERVICE


def test_both_containers_of_a_pod_use_the_same_directory() -> None:
    """A replica's own: <state dir>/<application>/<replica>."""
    pod = stage_pod()
    stage = {entry["name"]: entry for entry in pod["containers"][0]["env"]}
    manager = {entry["name"]: entry for entry in manager_container()["env"]}
    root = stage["TOWPATH_STATE_DIR"]["value"]
    assert f"--state-dir={root}/$(TOWPATH_APP)/$(TOWPATH_REPLICA)" in manager_container()["args"]
    assert stage["TOWPATH_REPLICA_NAME"]["valueFrom"] == manager["TOWPATH_REPLICA"]["valueFrom"]
    assert {mount["mountPath"] for mount in manager_container()["volumeMounts"]} >= {root}


def test_the_allocator_is_the_one_that_the_image_has() -> None:
    pod = stage_pod()
    (preloaded,) = [entry["value"] for entry in pod["containers"][0]["env"] if entry["name"] == "LD_PRELOAD"]
    assert preloaded.startswith(f"lib{LIBRARY}.so")
    assert f"lib{LIBRARY.replace('_', '-')}" in (REPOSITORY / "services/stage/Dockerfile").read_text()


def test_the_application_has_the_stages_of_its_query() -> None:
    app = next(each for each in manifests.kustomizations() if "../base" in each.get("resources", []))
    stages = [name for name in app["resources"] if name != "../base"]
    assert stages == list(PLAN.names)
    assert literals()["TOWPATH_QUERY"] == {"queries.key_count"}
    assert literals()["TOWPATH_APP"] == {PLAN.app}
    for stage in PLAN.stages:
        made = documents((DEPLOY / "key-count" / stage.name / "kustomization.yaml").read_text())[0]
        assert made["labels"][0]["pairs"] == {"app.kubernetes.io/component": stage.name}
        assert ("../../components/state" in made.get("components", [])) is stage.stateful


def test_the_coordinator_may_change_the_number_of_its_stages_and_nothing_else() -> None:
    (rule,) = named(all_documents(), "Role", "towpath-coordinator")["rules"]
    assert (rule["apiGroups"], rule["resources"]) == (["apps"], ["statefulsets/scale"])
    assert sorted(rule["verbs"]) == ["get", "patch"]
    assert rule["resourceNames"], "no name at all would mean every StatefulSet"
    app = next(each for each in manifests.kustomizations() if "../base" in each.get("resources", []))
    (patch,) = documents(app["patches"][0]["patch"])[0]
    assert (patch["path"], patch["value"]) == ("/rules/0/resourceNames", list(PLAN.names))


def test_no_manifest_fixes_the_number_of_replicas_of_a_stage() -> None:
    """Applying it again would undo what was scaled."""
    assert "replicas" not in stage_set()["spec"]


def test_policies_open_the_ports_on_which_containers_listen() -> None:
    listened = {port["containerPort"] for container in own_containers() for port in container.get("ports", [])}
    base = documents((DEPLOY / "base/network.yaml").read_text())
    opened = {port["port"] for policy in base for rule in policy["spec"].get("ingress", []) for port in rule["ports"]}
    assert opened == listened


def test_autoscalers_look_at_what_there_is() -> None:
    found = all_documents()
    (trigger,) = named(found, "ScaledObject", "count")["spec"]["triggers"]
    (source,) = PLAN.stage("count").inputs
    assert trigger["metadata"]["topic"] == source.topic
    assert trigger["metadata"]["consumerGroup"] == consumer_group(PLAN.app, "count")
    assert trigger["metadata"]["bootstrapServersFromEnv"] in literals()
    (metric,) = named(found, "HorizontalPodAutoscaler", "count")["spec"]["metrics"]
    figures = {each.name for each in CoordinatorMetrics().registry.collect()}
    assert metric["external"]["metric"]["name"] in figures
