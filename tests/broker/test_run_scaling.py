"""``towpath run`` with its coordinator: it follows what is wanted, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from tests.harness.commands import run_all
from tests.harness.deployment import await_worked_off, read_outputs
from tests.harness.launched import QUERY, Run, lives
from tests.harness.load import Load, create_topic
from tests.harness.processes import REPOSITORY, START_LIMIT_S
from tests.harness.reference import bids_of, compare_each_count
from tests.harness.waiting import wait_for
from towpath.broker import LocalBroker
from towpath.query.loading import load_query

pytestmark = pytest.mark.slow

PARTITIONS = 4
STOP_LIMIT_S = 45.0
"""Everybody leaves at the same time: an answer of the coordinator, a last transaction, two seconds of the state
managers; on two busy cores."""


@pytest.fixture
def start_run(broker: LocalBroker, unique_name: Callable[[str], str], tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def start(**options: int) -> Run:
        app = unique_name("scaled")
        create_topic(broker.bootstrap, f"{app}-events", PARTITIONS)
        runs.append(Run(broker.bootstrap, app, tmp_path, "--coordinator-port", "0", **options))
        return runs[-1]

    yield start
    for run in runs:
        run.close()


def url_of(run: Run) -> str:
    found = re.search(r"coordinator at (\S+)", run.log())
    assert found, run.describe()
    return found[1]


def scale(run: Run, count: int) -> None:
    command = ["scale", f"count={count}", "--coordinator", url_of(run), "--wait", "--timeout", "60"]
    (ended,) = run_all([command], str(REPOSITORY))
    assert ended.status == 0, f"{ended.said}\n{run.describe()}"


def stage_and_state_manager(pod: psutil.Process) -> tuple[int, int]:
    """Process ids of a pod's two processes; 0 for one that is not there."""
    lines = {child.pid: child.cmdline() for child in pod.children() if lives(child)}
    stage = next((pid for pid, line in lines.items() if "stage" in line[:4]), 0)
    return stage, next((pid for pid, line in lines.items() if "serve" in line[:4]), 0)


def test_replicas_come_and_go_as_wanted_and_the_counts_are_right(start_run, broker):
    run = start_run(counters=1)
    run.await_running()
    with Load(broker.bootstrap, f"{run.app}-events", partitions=PARTITIONS, rate=1000) as load:
        scale(run, 3)
        run.names += ["count-1", "count-2"]
        run.await_running()
        scale(run, 1)
        for name in ("count-1", "count-2"):
            wait_for(
                f"{name} has left", lambda name=name: f"{name} has left with status 0" in run.log(), 60.0, run.describe
            )
        load.stop()
        bids = bids_of(load.values())
    plan = load_query(QUERY, {"app": run.app})
    await_worked_off(plan, broker.bootstrap, run.describe)
    run.send(signal.SIGINT)
    assert run.wait(STOP_LIMIT_S) == 0, run.describe()
    run.await_nothing_left()
    compare_each_count(read_outputs(broker.bootstrap, f"{run.app}-counts"), bids)


def test_ctrl_c_lets_everybody_leave_at_once(start_run):
    run = start_run()
    run.await_running()
    run.send(signal.SIGINT)
    assert run.wait(STOP_LIMIT_S) == 0, run.describe()
    run.await_nothing_left()
    for name in run.names:
        assert "stopped cleanly" in run.replica_log(name), run.describe()


def test_a_killed_stage_is_started_again_beside_its_state_manager(start_run):
    run = start_run()
    run.await_running()
    pod = psutil.Process(run.pids()["count-1"])
    stage, state_manager = stage_and_state_manager(pod)
    os.kill(stage, signal.SIGKILL)
    wait_for(
        "it is started again",
        lambda: stage_and_state_manager(pod)[0] not in (0, stage),
        START_LIMIT_S,
        run.describe,
    )
    assert "stage crashed with status 137 and is started again" in run.replica_log("count-1")
    assert stage_and_state_manager(pod)[1] == state_manager
    run.await_running()
    assert "crashed" not in run.log(), run.describe()


def test_a_killed_launcher_leaves_no_process_behind(start_run):
    run = start_run()
    run.await_running()
    run.send(signal.SIGKILL)
    wait_for("no process is left", lambda: not run.descendants(), 2 * STOP_LIMIT_S, run.describe)
