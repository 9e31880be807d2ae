"""Containers in trouble: killed, restarted, without a broker, all gone and back, without room on a disk."""

from __future__ import annotations

import pytest

from loadgen.topics import end_offsets
from tests.compose.conftest import Projects
from tests.harness.compose import SETTLE_LIMIT_S, Compose
from tests.harness.waiting import wait_for

pytestmark = [pytest.mark.compose, pytest.mark.slow, pytest.mark.long, pytest.mark.timeout(1200)]

PIPELINE = ("kafka", "topics", "coordinator", "source", "count", "load")
RATE, SECONDS, SECONDS_AGAIN = 500, 90, 15
"""Of load, for as long as the trouble lasts; and after everything was stopped."""

RESTART_LIMIT_S = 180.0
"""For a container that the engine starts again: its pauses double up to a minute while it ends at once."""

FILL = "head -c 100m /dev/zero > /small/filler; head -c 1m /dev/zero >> /small/filler; true"


def written(compose: Compose) -> int:
    """Committed outputs so far."""
    return sum(end_offsets(compose.bootstrap, "key-count", committed=True).values())


def await_progress(compose: Compose) -> None:
    """Wait until there are more outputs than now."""
    before = written(compose)
    wait_for("outputs go on", lambda: written(compose) > before, SETTLE_LIMIT_S, compose.logs)


def test_killed_and_restarted_containers_a_restarted_broker_and_a_full_stop_lose_and_double_nothing(
    projects: Projects,
) -> None:
    compose = projects(RATE=RATE, DURATION=f"{SECONDS}s")
    compose("up", "-d", "--scale", "count=2", *PIPELINE)
    compose.await_settled("count", 2)
    await_progress(compose)

    compose("kill", "count")
    compose("start", "count")
    compose.await_settled("count", 2)
    await_progress(compose)

    compose("restart", "coordinator", "source")
    compose.await_settled("count", 2)
    await_progress(compose)

    compose("restart", "kafka")
    compose.await_settled("source", 1, RESTART_LIMIT_S)
    compose.await_settled("count", 2, RESTART_LIMIT_S)
    compose.await_exit("load")

    compose("down")
    compose.environment["DURATION"] = f"{SECONDS_AGAIN}s"
    compose("up", "-d", *PIPELINE)
    compose.await_settled("count", 1)
    await_progress(compose)
    compose.await_exit("load")
    verdict = compose.verify()
    assert verdict["mismatches"] == 0, verdict
    assert verdict["input_events"] >= RATE * (SECONDS + SECONDS_AGAIN)


def test_a_replica_without_room_on_its_disk_says_so_leaves_its_tasks_to_others_and_comes_back(
    projects: Projects,
) -> None:
    compose = projects(("tests/compose/small-disk.yml",), RATE=RATE, DURATION=f"{SECONDS}s")
    compose("up", "-d", *PIPELINE, "cramped", "somebody")
    compose.await_settled("count", 2)
    (roomy,) = (container[:12] for container in compose.containers("count"))

    compose("exec", "-T", "somebody", "sh", "-c", FILL)
    wait_for(
        "the full disk is named",
        lambda: "No space left on device" in compose.logs("cramped"),
        SETTLE_LIMIT_S,
        compose.logs,
    )
    wait_for(
        "the other replica has all tasks",
        lambda: {task["owner"] for task in compose.ask("/tasks") or () if task["stage"] == "count"} == {roomy},
        SETTLE_LIMIT_S,
        lambda: f"{compose.ask('/tasks')}\n{compose.logs()}",
    )
    await_progress(compose)

    compose("exec", "-T", "somebody", "rm", "/small/filler")
    compose.await_settled("count", 2, RESTART_LIMIT_S)
    compose.await_exit("load")
    verdict = compose.verify()
    assert verdict["mismatches"] == 0, verdict
    assert verdict["input_events"] == RATE * SECONDS
