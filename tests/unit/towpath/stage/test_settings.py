from __future__ import annotations

from pathlib import Path

import pytest

from towpath.coordinator.settings import load_coordinator_settings
from towpath.errors import SettingsError
from towpath.stage.settings import Guarantee, load_settings, read_properties

REQUIRED = {"query": "queries.key_count", "stage": "count"}


def test_defaults_are_exactly_once_from_the_earliest_offset() -> None:
    settings = load_settings(REQUIRED)
    assert settings.guarantee is Guarantee.EXACTLY_ONCE
    assert (settings.start_from, settings.on_input_loss) == ("earliest", "stop")


def test_the_name_of_a_replica_is_its_stage_and_index() -> None:
    assert load_settings({**REQUIRED, "replica_index": 2, "replica_count": 3}).replica == "count-2"


def test_the_environment_sets_what_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_BOOTSTRAP", "kafka:9092")
    monkeypatch.setenv("TOWPATH_MEMORY_MB", "64")
    monkeypatch.setenv("TOWPATH_STAGE", "other")
    settings = load_settings({**REQUIRED, "bootstrap": None})
    assert (settings.bootstrap, settings.memory_mb, settings.stage) == ("kafka:9092", 64, "count")


def test_one_line_names_every_wrong_setting() -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({**REQUIRED, "guarantee": "twice", "memory_mb": 1, "comit_interval_ms": 5})
    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith("wrong settings: ")
    for name in ("guarantee", "memory_mb", "comit_interval_ms"):
        assert name in text


def test_a_setting_that_does_not_exist_is_said_so_with_the_nearest() -> None:
    with pytest.raises(
        SettingsError, match=r"such setting; did you mean 'commit_interval_ms'\?; nonsense: no such set"
    ):
        load_settings({**REQUIRED, "comit_interval_ms": 5, "nonsense": 1})
    with pytest.raises(SettingsError, match=r"silence: no such setting; did you mean 'silence_s'\?"):
        load_coordinator_settings({"query": "queries.key_count", "silence": 5})


def test_a_wrong_variable_of_the_environment_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOWPATH_HTTP_PORT", "eighty")
    with pytest.raises(SettingsError, match=r"http_port: .*integer"):
        load_settings(REQUIRED)


def test_an_index_beyond_the_number_of_replicas_is_a_wrong_setting() -> None:
    with pytest.raises(SettingsError, match=r"replica index 2 .* 0 … 1"):
        load_settings({**REQUIRED, "replica_index": 2, "replica_count": 2})


def test_properties_are_key_value_lines_with_comments_and_blanks(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("# secrets\n\nsasl.password = a=b \nssl.ca.location=/ca.pem\n")
    assert read_properties(path) == {"sasl.password": "a=b", "ssl.ca.location": "/ca.pem"}  # pragma: allowlist secret
    assert read_properties(None) == {}


def test_a_line_without_equals_sign_is_named_by_file_and_number_but_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "client.properties"
    path.write_text("a=b\nhunter2\n")
    with pytest.raises(SettingsError, match=r"client\.properties, line 2: expected key=value") as caught:
        read_properties(path)
    assert "hunter2" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nothing can't be read: No such file"):
        read_properties(tmp_path / "nothing")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "client.p12"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SettingsError, match=r"client\.p12 can't be read: it is not text"):
        read_properties(path)
