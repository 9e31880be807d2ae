"""docker-compose.yml, the files of queries beside it, and .env.example say the same as the code."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

import queries
from towpath.coordinator.settings import CoordinatorSettings
from towpath.query.compose import render_compose
from towpath.query.loading import ATTRIBUTES, load_query
from towpath.stage.settings import StageSettings

ROOT = Path(__file__).resolve().parents[3]
DIRECTORY = ROOT / "deploy" / "compose"
FILES = [ROOT / "docker-compose.yml", *sorted(DIRECTORY.glob("*.yml"))]

DECIDED_BY_THE_FILE = {
    *("query", "stage", "query_settings", "bootstrap", "coordinator", "state_dir", "http_host", "http_port"),
    *("replica_name", "replica_index", "replica_count", "drain_s"),
}
"""Settings of a stage that containers give it themselves."""

FILES_OF_SECRETS = {"kafka_config", "schema_registry_config", "schema_registry_ca"}
"""Settings that name files, which containers would not see."""

OF_THE_COORDINATOR_TOO = {
    "query",
    "query_settings",
    "plans",
    "bootstrap",
    "kafka_config",
    "name",
    "http_host",
    "http_port",
}

OF_KUBERNETES = {"scaler", "kubernetes_namespace", "kubernetes_name"}

OF_EVERY_PROCESS = {"TOWPATH_LOG_FORMAT"}

WITHOUT_A_CLASS = {"TOWPATH_NATIVE", "TOWPATH_ALLOCATOR", *OF_EVERY_PROCESS}

HAVE_NO_FILE = {"queries.q10"}
"""It writes files, for which containers would have to share a directory."""


class Loader(yaml.SafeLoader):
    """Knows Compose's own tags."""


Loader.add_multi_constructor("!", lambda loader, _, node: loader.construct_mapping(node, deep=True))


def services(path: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = yaml.load(path.read_text(), Loader)["services"]
    return found


def passed_on(service: str) -> set[str]:
    """Variables that a service gets as they are."""
    return {name for name, value in services(DIRECTORY / "base.yml")[service]["environment"].items() if value is None}


def variables(settings: type[StageSettings | CoordinatorSettings], without: set[str]) -> dict[str, Any]:
    prefix = str(settings.model_config["env_prefix"])
    return {
        prefix + name.upper(): field.default for name, field in settings.model_fields.items() if name not in without
    }


def examples() -> dict[str, str]:
    """Setting → value of .env.example, those that are commented out included."""
    return dict(re.findall(r"^#?([A-Z][A-Z_]*)=(.*)$", (ROOT / ".env.example").read_text(), re.MULTILINE))


def named_queries() -> list[str]:
    modules = [f"queries.{found.name}" for found in pkgutil.iter_modules(queries.__path__)]
    return [name for name in modules if any(hasattr(importlib.import_module(name), each) for each in ATTRIBUTES)]


def test_stages_and_coordinator_can_be_set_as_on_the_command_line() -> None:
    stage = variables(StageSettings, DECIDED_BY_THE_FILE | FILES_OF_SECRETS)
    assert passed_on("stage") == set(stage) | WITHOUT_A_CLASS
    of_coordinator = set(variables(CoordinatorSettings, OF_THE_COORDINATOR_TOO | OF_KUBERNETES))
    assert passed_on("coordinator") == of_coordinator | OF_EVERY_PROCESS


def test_the_example_names_every_setting_and_no_other() -> None:
    text = "".join(path.read_text() for path in FILES)
    named = set(re.findall(r"\$\{([A-Z_]+)", text)) | passed_on("stage") | passed_on("coordinator")
    assert set(examples()) == named


def test_the_example_shows_the_defaults() -> None:
    text = "".join(path.read_text() for path in FILES)
    defaults = {name: {value} for name, value in re.findall(r"\$\{([A-Z_]+):-([^}]*)\}", text)}
    for settings in (variables(StageSettings, set()), variables(CoordinatorSettings, set())):
        defaults |= {name: {str(value), str(value).lower()} for name, value in settings.items() if value is not None}
    shown = examples()
    assert {name: shown[name] for name in shown.keys() & defaults if shown[name] not in defaults[name]} == {}


def test_a_variable_has_one_default_everywhere() -> None:
    text = "".join(path.read_text() for path in FILES)
    found = set(re.findall(r"\$\{([A-Z_]+):-([^}]*)\}", text))
    assert len(found) == len(dict(found))


@pytest.mark.parametrize("name", [name for name in named_queries() if name not in HAVE_NO_FILE])
def test_a_query_has_its_file_as_the_command_makes_it(name: str) -> None:
    assert (DIRECTORY / f"{name}.yml").read_text() == render_compose(load_query(name), name) + "\n"


def test_there_is_no_file_of_a_query_that_does_not_exist() -> None:
    assert {path.stem for path in DIRECTORY.glob("queries.*.yml")} == set(named_queries()) - HAVE_NO_FILE


def test_services_of_a_query_are_its_stages_and_the_jobs_at_its_sinks() -> None:
    q5 = yaml.safe_load(render_compose(load_query("queries.q5"), "queries.q5"))["services"]
    assert list(q5) == [*load_query("queries.q5").names, "latency", "verify"]
    assert q5["hottest"]["command"] == "pod queries.q5 --stage hottest"
    assert q5["verify"]["command"].startswith("verify q5 --input-topic nexmark-events --sink-topic q5")


def test_our_containers_can_change_nothing_but_their_volumes() -> None:
    base = services(DIRECTORY / "base.yml")
    for name, service in {**base, "token": services(ROOT / "docker-compose.yml")["token"]}.items():
        hardened = service if "extends" not in service else base[service["extends"]]
        assert hardened["read_only"] is True, name
        assert hardened["cap_drop"] == ["ALL"], name
        assert "no-new-privileges:true" in hardened["security_opt"], name


@pytest.mark.parametrize(
    "path", sorted([*ROOT.glob("services/*/Dockerfile"), ROOT / "loadgen" / "Dockerfile"]), ids=str
)
def test_an_image_has_locked_versions_and_no_root(path: Path) -> None:
    text = path.read_text()
    assert "uv sync --locked" in text
    assert text.rindex("USER 10001:10001") > text.rindex("FROM ")


def test_ports_are_published_on_loopback_alone() -> None:
    ports = [port for path in FILES for service in services(path).values() for port in service.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
