"""docs/kubernetes.md: what its commands name is there."""

from __future__ import annotations

import re
import shlex

import typer.main
from typer.core import TyperGroup

import towpath.cli
from tests.harness.manifests import all_documents, doc_commands, literals
from tests.harness.processes import REPOSITORY
from towpath.coordinator.settings import CoordinatorSettings

PAGE = (REPOSITORY / "docs/kubernetes.md").read_text()


def test_files_and_directories_of_the_commands_exist() -> None:
    named = {word for line in doc_commands() for word in shlex.split(line) if "/" in word}
    paths = {word for word in named if word.startswith(("deploy/", "services/", "loadgen/"))}
    assert len(paths) >= 6
    assert {path for path in paths if not (REPOSITORY / path).exists()} == set()


def test_objects_of_the_commands_exist() -> None:
    objects = {(each["kind"].lower(), each["metadata"]["name"]) for each in all_documents()}
    objects |= {("statefulset", "count"), ("statefulset", "source"), ("service", "count")}
    named = {tuple(found) for line in doc_commands() for found in re.findall(r"\b([a-z]+)/([a-z-]+)\b", line)}
    kinds = {kind for kind, _ in objects}
    assert {(kind, name) for kind, name in named if kind in kinds} - objects - {("job", "verify")} == set()


def test_towpath_knows_its_commands_and_their_options() -> None:
    group = typer.main.get_command(towpath.cli.app)
    assert isinstance(group, TyperGroup)
    lines = [shlex.split(line) for line in doc_commands() if line.startswith("towpath ")]
    assert lines
    for _, command, *words in lines:
        known = {option for parameter in group.commands[command].params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= known


def test_secrets_and_settings_of_the_page_are_those_of_the_manifests() -> None:
    mounted = {
        source["secret"]["name"]
        for document in all_documents()
        for volume in document.get("spec", {}).get("template", {}).get("spec", {}).get("volumes", [])
        for source in volume.get("projected", {}).get("sources", [])
    }
    made = {found for line in doc_commands() for found in re.findall(r"create secret generic ([a-z-]+)", line)}
    assert made == mounted
    for name in ("SCALER", "KUBERNETES_NAMESPACE", "KUBERNETES_NAME"):
        assert f"TOWPATH_COORDINATOR_{name}" in PAGE
        assert name.lower() in CoordinatorSettings.model_fields
    assert literals()["TOWPATH_TLS_NAME"] == {"towpath"}
