"""What a local broker refuses, and says, before any JVM is started."""

import errno
from collections.abc import Callable
from pathlib import Path

import pytest

import towpath.broker
from towpath.broker import (
    BrokerError,
    BrokerNotRunningError,
    BrokerSettingError,
    DataDirError,
    DiskFullError,
    LocalBroker,
    startup,
)
from towpath.broker.jvm import cluster_id
from towpath.broker.startup import data_dir_error
from towpath.errors import TowpathError


def test_the_public_names_are_sorted_and_exist() -> None:
    assert sorted(towpath.broker.__all__) == sorted(set(towpath.broker.__all__))
    assert all(hasattr(towpath.broker, name) for name in towpath.broker.__all__)


def test_every_error_is_one_of_towpaths() -> None:
    errors = [getattr(towpath.broker, name) for name in towpath.broker.__all__ if name.endswith("Error")]
    assert all(issubclass(error, BrokerError) and issubclass(error, TowpathError) for error in errors)


@pytest.mark.parametrize("port", [-1, 65_536])
def test_a_number_that_is_no_port_is_refused(tmp_path: Path, port: int) -> None:
    with pytest.raises(BrokerSettingError, match=f"^{port} isn't a port: name one up to 65535, or 0"):
        LocalBroker(tmp_path, port)


def test_wrong_settings_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(BrokerSettingError, match="isn't a heap size"):
        LocalBroker(tmp_path, heap="lots")
    with pytest.raises(BrokerSettingError, match="can't be set here"):
        LocalBroker(tmp_path, settings={"node.id": "2"})


def test_making_the_object_touches_nothing(tmp_path: Path) -> None:
    broker = LocalBroker(tmp_path / "data")
    assert broker.pid is None
    assert not broker.answers()
    assert not broker.stop()
    assert not (tmp_path / "data").exists()


def test_before_the_first_start_there_is_no_address(tmp_path: Path) -> None:
    with pytest.raises(BrokerNotRunningError, match=r"^no broker has been started in .*: start it first$"):
        _ = LocalBroker(tmp_path).bootstrap


@pytest.mark.parametrize("act", [LocalBroker.kill, LocalBroker.pause, LocalBroker.resume])
def test_a_broker_that_does_not_run_cannot_be_signalled(tmp_path: Path, act: Callable[[LocalBroker], None]) -> None:
    with pytest.raises(BrokerNotRunningError, match=r"^no broker runs in .*: start it first$"):
        act(LocalBroker(tmp_path))


def test_a_file_in_place_of_the_data_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(DataDirError, match=r"^the data directory .*data can't be used \(File exists\): make"):
        LocalBroker(tmp_path / "data").start()


def test_too_little_disk_space_is_reported_before_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "MINIMUM_FREE_BYTES", 1 << 62)
    with pytest.raises(DiskFullError, match=r"must be free; free some, or name a directory on another disk$"):
        LocalBroker(tmp_path / "data").start()


def test_a_full_and_a_read_only_disk_are_two_situations(tmp_path: Path) -> None:
    assert isinstance(data_dir_error(tmp_path, OSError(errno.ENOSPC, "No space left on device")), DiskFullError)
    assert isinstance(data_dir_error(tmp_path, OSError(errno.EROFS, "Read-only file system")), DataDirError)


def test_without_java_a_start_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(TowpathError, match=r"^Java is missing: install a Java 17 \(or newer\) runtime"):
        LocalBroker(tmp_path / "data").start()


def test_a_cluster_id_has_22_characters_and_no_leading_dash() -> None:
    ids = {cluster_id() for _ in range(500)}
    assert len(ids) == 500
    assert {len(text) for text in ids} == {22}
    assert not [text for text in ids if text.startswith("-")]
