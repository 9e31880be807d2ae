"""A stage with topics whose schemas are in a registry says in one line what its settings lack, and shows no secret."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from statemgr.testing.kafka import ManualClock
from towpath.errors import SettingsError
from towpath.query import Query
from towpath.query.plan import StagePlan
from towpath.stage.registry_settings import client_properties, registry_for
from towpath.stage.settings import StageSettings, load_settings

REQUIRED = {"query": "q", "stage": "source"}
URL = "http://127.0.0.1:8081"


def stage(form: str = "avro") -> StagePlan:
    query = Query("app")
    query.source("orders", schema={"n": pl.Int64}, format=form).sink("out")
    return query.plan().stages[0]


def registry(**settings: Any) -> Any:
    return registry_for(stage(), StageSettings(**REQUIRED, **settings), ManualClock())


def test_a_stage_of_json_needs_no_registry() -> None:
    assert registry_for(stage("json"), StageSettings(**REQUIRED), ManualClock()) is None


def test_a_stage_of_avro_needs_the_url_of_one() -> None:
    with pytest.raises(SettingsError, match=r"topic orders is in avro, .* -o schema_registry_url=.* or TOWPATH_SCHEMA"):
        registry()
    assert registry(schema_registry_url=URL).url == URL


@pytest.mark.parametrize("url", ["127.0.0.1:8081", "ftp://here", "http://", "http://here:port", "http://a,there"])
def test_a_url_that_is_none_is_named(url: str) -> None:
    with pytest.raises(SettingsError, match=r"schema_registry_url: .* is no URL of a server"):
        registry(schema_registry_url=url)


def test_credentials_in_the_url_are_refused_and_not_repeated() -> None:
    with pytest.raises(SettingsError, match="TOWPATH_SCHEMA_REGISTRY_AUTH") as caught:
        registry(schema_registry_url="http://me:hunter2@here:8081")  # pragma: allowlist secret
    assert "hunter2" not in str(caught.value)


def test_a_secret_comes_from_the_environment_and_not_from_a_command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="set TOWPATH_SCHEMA_REGISTRY_AUTH in the environment") as caught:
        load_settings({"schema_registry_auth": "me:hunter2"}, REQUIRED)
    assert "hunter2" not in str(caught.value)
    monkeypatch.setenv("TOWPATH_SCHEMA_REGISTRY_AUTH", "me:hunter2")
    settings = load_settings(REQUIRED)
    assert client_properties(settings) == {"basic.auth.user.info": "me:hunter2"}
    assert "hunter2" not in repr(settings)


def test_a_file_has_further_properties_of_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "registry.properties"
    path.write_text("basic.auth.user.info=me:hunter2\n")
    settings = StageSettings(**REQUIRED, schema_registry_url=URL, schema_registry_config=path)
    assert client_properties(settings) == {"basic.auth.user.info": "me:hunter2"}
    assert registry_for(stage(), settings, ManualClock()) is not None
    monkeypatch.setenv("TOWPATH_SCHEMA_REGISTRY_AUTH", "me:other")
    with pytest.raises(SettingsError, match=r"basic\.auth\.user\.info in .* schema_registry_auth says, too: drop one"):
        client_properties(StageSettings(**REQUIRED, schema_registry_config=path))


def test_properties_that_the_client_refuses_are_named_with_their_file(tmp_path: Path) -> None:
    path = tmp_path / "registry.properties"
    path.write_text("basic.auth.user.inf=me:hunter2\n")
    with pytest.raises(SettingsError, match=r"basic\.auth\.user\.inf.*registry\.properties") as caught:
        registry(schema_registry_url=URL, schema_registry_config=path)
    assert "hunter2" not in str(caught.value)


def test_a_ca_file_that_is_not_there_is_named_by_its_setting(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"can't be read: No such file.*schema_registry_ca"):
        registry(schema_registry_url="https://here:8081", schema_registry_ca=tmp_path / "ca.pem")


def test_a_client_that_is_not_installed_is_named_by_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str, *_: Any) -> Any:
        raise ModuleNotFoundError("No module named 'fastavro'", name="fastavro")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(SettingsError, match=r"for which fastavro is missing: pip install 'towpath\[registry\]'"):
        registry(schema_registry_url=URL)
