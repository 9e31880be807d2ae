from __future__ import annotations

import asyncio
import json
import socket
import urllib.error
import urllib.request
from typing import Any

import pytest

from statemgr.errors import ProducerLostError
from statemgr.testing.kafka import ManualClock
from tests.unit.towpath.stage.plans import SOURCE, bids, count_stage
from towpath.errors import SettingsError
from towpath.stage.health import HttpServer, application, stalled
from towpath.stage.replica import Replica
from towpath.testing import StageDriver

STALL_S = 30.0


def get(driver: StageDriver, path: str, index: int = 0) -> tuple[int, bytes]:
    """Ask the ASGI application itself."""
    process = driver.process("count", index)
    app = application(replica_of(driver, index), process.metrics, driver.clock, STALL_S)
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": path, "query_string": b"", "headers": [], "root_path": ""}
    asyncio.run(app(scope, receive, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def replica_of(driver: StageDriver, index: int = 0) -> Replica:
    replica = driver.process("count", index).replica
    assert replica is not None
    return replica


@pytest.fixture
def driver() -> StageDriver:
    driver = StageDriver(count_stage(), replicas={"count": 3}, partitions={SOURCE: 2})
    driver.pipe(SOURCE, bids([1, 1]), partition=0)
    driver.run_until_idle()
    return driver


def test_a_replica_that_moves_is_healthy_and_ready(driver: StageDriver) -> None:
    assert get(driver, "/health") == (200, b'{"phase":"running","problem":null}')
    assert get(driver, "/ready") == (200, b'{"phase":"running","idle":false}')


def test_a_replica_without_tasks_is_healthy_ready_and_says_that_it_is_idle(driver: StageDriver) -> None:
    assert get(driver, "/health", 2)[0] == 200
    assert json.loads(get(driver, "/ready", 2)[1]) == {"phase": "running", "idle": True}
    assert json.loads(get(driver, "/tasks", 2)[1]) == []


def test_tasks_are_listed_with_epoch_and_offsets(driver: StageDriver) -> None:
    assert json.loads(get(driver, "/tasks")[1]) == [
        {"stage": "count", "partition": 0, "epoch": 1, "offsets": {SOURCE: 2}}
    ]


def test_metrics_are_those_of_the_replica(driver: StageDriver) -> None:
    status, body = get(driver, "/metrics")
    assert status == 200
    assert b'towpath_records_total{replica="count-0",stage="count"} 2.0' in body
    assert b'towpath_phase{phase="running",replica="count-0",stage="count"} 1.0' in body


def test_work_that_takes_too_long_turns_health_red_and_is_named(driver: StageDriver) -> None:
    driver.advance_time(STALL_S * 1000)
    status, body = get(driver, "/health")
    assert status == 503
    assert json.loads(body)["problem"] == "waiting for input for 30 s (limit 30 s)"


def test_a_batch_is_named_by_topic_partition_and_offset(driver: StageDriver) -> None:
    replica, clock = replica_of(driver), driver.clock
    seen: list[str | None] = []

    def hook(client: str, call: str) -> None:
        if (client, call) == ("count-0", "begin") and not seen:
            clock.advance(STALL_S)
            seen.append(stalled(replica, clock, STALL_S))

    driver.kafka.on_call(hook)
    driver.pipe(SOURCE, bids([1]), partition=0)
    driver.run_once()
    assert seen == ["processing a batch from bids[0] offset 2 for 30 s (limit 30 s)"]


def test_a_replica_that_has_ended_is_not_stalled_and_not_ready(driver: StageDriver) -> None:
    driver.stop("count")
    driver.advance_time(10 * STALL_S * 1000)
    assert stalled(replica_of(driver), driver.clock, STALL_S) is None
    assert (get(driver, "/health")[0], get(driver, "/ready")[0]) == (200, 503)


def test_a_failed_replica_is_unhealthy(driver: StageDriver) -> None:
    replica_of(driver).fail()
    assert get(driver, "/health") == (503, b'{"phase":"failed","problem":null}')


def test_the_server_takes_a_free_port_and_answers(driver: StageDriver) -> None:
    process = driver.process("count")
    server = HttpServer(application(replica_of(driver), process.metrics, ManualClock(), STALL_S), "127.0.0.1", 0)
    port = server.start()
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/ready", timeout=5) as answer:
            assert answer.status == 200
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/nothing", timeout=5)
    finally:
        server.stop()


def test_a_port_that_is_taken_is_named_with_the_remedy(driver: StageDriver) -> None:
    process = driver.process("count")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = HttpServer(application(replica_of(driver), process.metrics, ManualClock(), STALL_S), "127.0.0.1", port)
        with pytest.raises(SettingsError, match=rf"127\.0\.0\.1:{port}: the address is taken.*--http-port"):
            server.start()


def test_a_replica_that_can_not_become_owner_again_turns_red(driver: StageDriver) -> None:
    driver.kafka.fail_next("init_transactions", ProducerLostError("no answer"), client="count-0")
    replica = replica_of(driver)
    replica.drop("no answer")
    assert stalled(replica, driver.clock, STALL_S) is None
    driver.clock.advance(STALL_S - 1)
    replica.turn()
    driver.clock.advance(1.5)
    assert "without ownership" in (stalled(replica, driver.clock, STALL_S) or "")
    replica.turn()
    assert stalled(replica, driver.clock, STALL_S) is None
