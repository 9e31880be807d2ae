"""``towpath run``: everything starts, everything stops, whatever ends it."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.launched import Run
from tests.harness.load import Load, create_topic
from tests.harness.processes import START_LIMIT_S
from tests.harness.topics import read_topic
from tests.harness.waiting import wait_for
from towpath.broker import LocalBroker

pytestmark = pytest.mark.slow

StartRun = Callable[..., Run]


@pytest.fixture
def start_run(broker: LocalBroker, unique_name: Callable[[str], str], tmp_path: Path) -> Iterator[StartRun]:
    runs: list[Run] = []

    def start(*options: str) -> Run:
        """Under a static plan: what a coordinator adds has tests of its own."""
        app = unique_name("run")
        create_topic(broker.bootstrap, f"{app}-events", 4)
        runs.append(Run(broker.bootstrap, app, tmp_path, "--static", *options))
        return runs[-1]

    yield start
    for run in runs:
        run.close()


def test_ctrl_c_stops_everything_with_status_0(start_run):
    run = start_run()
    run.await_running()
    run.send(signal.SIGINT)
    assert run.wait() == 0, run.describe()
    run.await_nothing_left()
    for name in run.names:
        assert "stopped cleanly" in run.replica_log(name), run.describe()


def test_a_killed_launcher_leaves_no_process_behind(start_run):
    run = start_run()
    run.await_running()
    run.send(signal.SIGKILL)
    run.await_nothing_left()


def test_a_launcher_that_is_killed_while_it_starts_leaves_no_process_behind(start_run):
    run = start_run()
    wait_for("the first replica is there", lambda: len(run.descendants()) >= 2, START_LIMIT_S, run.describe)
    run.send(signal.SIGKILL)
    run.await_nothing_left()


def test_a_crashed_replica_is_started_again_and_counts_on(start_run, broker):
    run = start_run()
    run.await_running()
    before = run.pids()["count-1"]
    os.kill(before, signal.SIGKILL)
    wait_for("it is named again", lambda: run.pids()["count-1"] != before, START_LIMIT_S, run.describe)
    assert "count-1 crashed and was started again" in run.log()
    with Load(broker.bootstrap, f"{run.app}-events", partitions=4, limit=500):
        wait_for("it runs again", lambda: run.runs("count-1"), START_LIMIT_S, run.describe)
    run.send(signal.SIGTERM)
    assert run.wait() == 0, run.describe()
    run.await_nothing_left()


def test_a_stage_that_can_t_go_on_ends_the_run_with_its_last_lines(start_run, broker):
    run = start_run()
    run.await_running()
    with Load(broker.bootstrap, f"{run.app}-events", partitions=4, limit=1000) as load:
        load.finish()
    edge = f"{run.app}.source-count"
    wait_for("bids are counted", lambda: len(read_topic(broker.bootstrap, f"{run.app}-counts")) > 900, START_LIMIT_S)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for topics in (admin.delete_topics([edge]), admin.create_topics([NewTopic(edge, 4, 1)])):
        topics[edge].result(10)
    assert run.wait(START_LIMIT_S) == 1, run.describe()
    ended = re.search(r"^(count-\d) ended with status 1; its last lines:$", run.log(), re.MULTILINE)
    assert ended, run.describe()
    assert f"{edge}[" in run.log(), run.describe()
    run.await_nothing_left()


def test_a_topic_that_is_missing_is_said_once_and_nothing_is_started(broker, unique_name, tmp_path):
    run = Run(broker.bootstrap, unique_name("missing"), tmp_path)
    try:
        wait_for("it waits for the topic", lambda: run._child.poll() is None and not run.descendants(), 5.0)
        run.send(signal.SIGTERM)
        run.wait()
        assert "Traceback" not in run.log(), run.log()
        assert not run.run_dir.exists()
    finally:
        run.close()
