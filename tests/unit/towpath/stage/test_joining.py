"""A replica's lines to the outside: where its state manager is, and what is left of them when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from statemgr.clock import SystemClock
from statemgr.control.records import Layer
from statemgr.errors import HolderUnavailableError
from statemgr.migration.ports import Address
from statemgr.sidecar.client import GrpcStateClient
from statemgr.sidecar.endpoint import Endpoint, write_endpoint
from statemgr.store import MemoryBackend
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TaskId
from tests.harness.waiting import wait_for
from tests.unit.towpath.coordinator.application import STAGE, Application
from tests.unit.towpath.stage.plans import APP, count_stage
from towpath.coordinator.http import application as http_application
from towpath.stage import joining
from towpath.stage.coordinated import Coordinated
from towpath.stage.health import HttpServer
from towpath.stage.joining import join, state_address
from towpath.stage.metrics import StageMetrics
from towpath.stage.phases import Phase
from towpath.stage.settings import StageSettings


def test_a_directory_without_a_state_manager_has_no_address(tmp_path: Path) -> None:
    assert state_address(tmp_path) == ""


@pytest.mark.parametrize(("host", "address"), [("10.0.0.7", "10.0.0.7:7100"), ("fd00::7", "[fd00::7]:7100")])
def test_the_address_is_one_that_a_client_understands(tmp_path: Path, host: str, address: str) -> None:
    write_endpoint(tmp_path, Endpoint(host, 7100, 1))
    assert state_address(tmp_path) == address


@pytest.fixture
def application() -> Application:
    return Application()


@pytest.fixture
def port(application: Application) -> Iterator[int]:
    """Where the application's coordinator listens."""
    server = HttpServer(http_application(application.heard_by, SystemClock(), 1e9), "127.0.0.1", 0)
    yield server.start()
    server.stop()


@pytest.fixture
def state_clients(monkeypatch: pytest.MonkeyPatch) -> list[GrpcStateClient]:
    """Those that were made."""
    made: list[GrpcStateClient] = []

    class Noted(GrpcStateClient):
        def __init__(self, *arguments) -> None:
            super().__init__(*arguments)
            made.append(self)

    monkeypatch.setattr(joining, "GrpcStateClient", Noted)
    return made


def joined(port: int, kafka: FakeKafka, directory: Path) -> Coordinated:
    settings = StageSettings(
        _env_prefix="TOWPATH_JOINING_",
        query=APP,
        stage=STAGE,
        coordinator=f"http://127.0.0.1:{port}",
        replica_name="count-0",
        state_dir=directory,
    )
    metrics = StageMetrics(STAGE, "count-0")
    return join(count_stage(), settings, kafka, MemoryBackend(), SystemClock(), metrics)


def connections(port: int) -> int:
    """Of this process to that port."""
    return sum(bool(each.raddr) and each.raddr.port == port for each in psutil.Process().net_connections("tcp"))


def test_who_ends_says_its_last_word_and_leaves_no_line_open(
    application: Application, port: int, state_clients: list[GrpcStateClient], tmp_path: Path
) -> None:
    replica = joined(port, application.kafka, tmp_path)
    replica.turn({}, Phase.RUNNING)

    def phase() -> str | None:
        with application.heard_by.look() as facts:
            return next((heard.beat.phase for _, heard in facts.fleet.of_stage(STAGE)), None)

    wait_for("it is heard", lambda: phase() == "running", 10.0)
    assert connections(port) == 1
    replica.close()
    assert phase() == "stopped"
    assert connections(port) == 0
    (client,) = state_clients
    asked = client.describe(Address(TaskId(STAGE, 0), Layer("count-1", 1, "127.0.0.1:1"), 2), 0, 1.0)
    with pytest.raises(HolderUnavailableError, match="can't be asked"):
        asked.result()
