"""``towpath run``: everything starts, everything stops, whatever ends it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.load import Load, create_topic
from tests.harness.processes import REPOSITORY, START_LIMIT_S, STOP_LIMIT_S, tail
from tests.harness.topics import read_topic
from tests.harness.waiting import wait_for
from towpath.broker import LocalBroker
from towpath.launch.programs import STOP_WAIT_S

pytestmark = pytest.mark.slow

QUERY = "tests.harness.bid_counts"
GONE_LIMIT_S = STOP_WAIT_S + 8.0
"""Replicas stop within ten seconds at the same time; one that was just being started may miss the signal, and is killed
after the supervisor's wait; the rest is for the supervisor itself on a busy machine."""

NAMES = ["source-0", "count-0", "count-1"]


class Run:
    """A ``towpath run`` process, in a session of its own as under a terminal."""

    def __init__(self, bootstrap: str, app: str, work_dir: Path, *options: str) -> None:
        self.app = app
        self.run_dir = work_dir / "run"
        self._log = work_dir / "towpath-run.log"
        command = [
            *(sys.executable, "-m", "towpath.cli", "run", QUERY, "--set", f"app={app}", "--replicas", "count=2"),
            *("--bootstrap", bootstrap, "--state-dir", str(work_dir / "state"), "--run-dir", str(self.run_dir)),
            *options,
        ]
        with self._log.open("wb") as log:
            self._child = subprocess.Popen(command, stdout=log, stderr=log, cwd=REPOSITORY, start_new_session=True)
        self._seen: dict[int, psutil.Process] = {}

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def descendants(self) -> dict[int, psutil.Process]:
        """Every process that was ever seen under this one and is still there."""
        if self._child.poll() is None:
            for process in psutil.Process(self._child.pid).children(recursive=True):
                self._seen[process.pid] = process
        return {pid: process for pid, process in self._seen.items() if _lives(process)}

    def pids(self) -> dict[str, int]:
        """Replica → the newest process id that ``towpath run`` has named."""
        return {name: int(pid) for name, pid in re.findall(r"^(\S+-\d+) .*\(pid (\d+)\)$", self.log(), re.MULTILINE)}

    def await_running(self) -> None:
        """Wait until every replica says that it runs, under the process id that was named."""

        def look() -> bool:
            self.descendants()
            assert self._child.poll() is None, self.describe()
            return sorted(self.pids()) == sorted(NAMES) and all(self._running(name) for name in NAMES)

        wait_for("all replicas run", look, START_LIMIT_S, self.describe)

    def send(self, number: int) -> None:
        self.descendants()
        os.kill(self._child.pid, number)

    def wait(self, timeout_s: float = GONE_LIMIT_S) -> int:
        return self._child.wait(timeout_s)

    def await_nothing_left(self) -> None:
        wait_for("no process is left", lambda: not self.descendants(), GONE_LIMIT_S, self.describe)

    def replica_log(self, name: str) -> str:
        path = self.run_dir / self.app / f"{name}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def describe(self) -> str:
        logs = "\n".join(f"{name} logged last:\n{tail(self.replica_log(name))}" for name in NAMES)
        return f"towpath run said:\n{tail(self.log())}\nleft: {list(self.descendants().values())}\n{logs}"

    def close(self) -> None:
        left = self.descendants()
        if self._child.poll() is None:
            self._child.kill()
            self._child.wait(STOP_LIMIT_S)
        for process in left.values():
            if _lives(process):
                process.kill()

    def _running(self, name: str) -> bool:
        starts = self.replica_log(name).split(" starting ")
        return "running" in starts[-1] and len(starts) > 1


def _lives(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


StartRun = Callable[..., Run]


@pytest.fixture
def start_run(broker: LocalBroker, unique_name: Callable[[str], str], tmp_path: Path) -> Iterator[StartRun]:
    runs: list[Run] = []

    def start(*options: str) -> Run:
        app = unique_name("run")
        create_topic(broker.bootstrap, f"{app}-events", 4)
        runs.append(Run(broker.bootstrap, app, tmp_path, *options))
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
    for name in NAMES:
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
        wait_for("it runs again", lambda: run._running("count-1"), START_LIMIT_S, run.describe)
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
