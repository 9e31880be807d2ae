"""SIGTERM under a coordinator: a drain is waited for, nothing else is, and a second signal ends the process at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.cases.clusters import grown, running, work
from tests.harness.cluster import Cluster, clustered
from tests.harness.load import Load, create_topic
from tests.harness.pods import StageProcess, free_port
from tests.harness.processes import STOP_LIMIT_S
from tests.harness.waiting import wait_for
from tests.unit.towpath.stage.cluster import TASKS

QUERY = "tests.harness.bid_counts"
AT_ONCE_S = 2.0
"""A second signal waits for nothing; the rest is for a busy machine."""

NOTHING_LISTENS = "127.0.0.1:1"

Stages = Callable[..., StageProcess]


# --- a drain is no stop that is overdue -----------------------------------------------------------------

DRAINING = """
import time
from towpath.stage import signals
signals.LEAVE_LIMIT_S = 1.0
stop = signals.StopSignals()
print("ready", flush=True)
stop.event.wait()
end = time.monotonic() + 3.0
while time.monotonic() < end:
    stop.draining()
    time.sleep(0.02)
print("drained", flush=True)
time.sleep(60)
"""


@pytest.mark.slow
def test_the_limit_of_a_stop_begins_when_nothing_is_waited_for_any_more() -> None:
    with subprocess.Popen([sys.executable, "-c", DRAINING], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "drained\n", "it ended while its tasks were still being moved away"
        assert process.wait(STOP_LIMIT_S) == 0


def test_a_replica_says_that_it_drains_as_long_as_it_waits_for_its_tasks_to_be_moved_away() -> None:
    cluster = grown("a", "b")
    replica, said = cluster.nodes["a"].replica, []
    replica._controls = replace(replica._controls, draining=lambda: said.append(len(replica.owned)))
    cluster.step()
    assert said == []
    cluster.drain("a")
    work(cluster, lambda: cluster.nodes["a"].left)
    assert said[0] == TASKS // 2
    work(cluster, running(cluster, "b"))
    cluster.assert_exact()


# --- processes ------------------------------------------------------------------------------------------


@pytest.fixture
def stage_of(tmp_path: Path) -> Iterator[Stages]:
    """Makes stages under a coordinator that does not answer, and leaves none behind."""
    made: list[StageProcess] = []

    def make(app: str, bootstrap: str) -> StageProcess:
        url = f"http://127.0.0.1:{free_port()}"
        made.append(StageProcess(QUERY, "count", "count-0", tmp_path, bootstrap, url, ["--set", f"app={app}"]))
        made[-1].start()
        return made[-1]

    yield make
    for process in made:
        process.close()


@pytest.mark.slow
def test_while_neither_broker_nor_coordinator_answers(stage_of: Stages) -> None:
    process = stage_of("nobody", NOTHING_LISTENS)
    process.await_phase("starting")
    process.stop()


@pytest.mark.slow
def test_while_no_coordinator_has_made_the_control_log(stage_of: Stages, broker, unique_name) -> None:
    app = unique_name("waiting")
    create_topic(broker.bootstrap, f"{app}-events", 4)
    process = stage_of(app, broker.bootstrap)
    process.await_phase("restoring")
    process.stop()


@pytest.mark.slow
def test_while_state_is_on_its_way_and_then_with_nobody_to_take_over(broker, unique_name, tmp_path: Path) -> None:
    """The newcomer leaves in the middle of its migration, then the last replica leaves at once."""
    app = unique_name("moving")
    cluster = Cluster(QUERY, broker.bootstrap, tmp_path, settings={"app": app}, source_partitions=4)
    with clustered(cluster), Load(broker.bootstrap, cluster.source, partitions=4, rate=1000):
        cluster.await_settled()
        cluster.coordinator.post("/scale", {"stage": "count", "manner": {"strategy": "lazy"}})
        (newcomer,) = cluster.scale("count", 2)
        wait_for("it has tasks", lambda: bool((newcomer.stage.get("/tasks") or (0, []))[1]), 30.0, cluster.describe)
        newcomer.drain()
        newcomer.stage.require_clean_exit()
        assert "nobody has taken" not in newcomer.stage.log(), newcomer.describe()
        last = cluster.pods["count-0"]
        wait_for("it owns all again", lambda: len(last.stage.get("/tasks")[1]) == 4, 30.0, cluster.describe)
        began_s = time.monotonic()
        last.drain()
        last.stage.require_clean_exit()
        assert time.monotonic() - began_s < STOP_LIMIT_S


@pytest.mark.slow
def test_while_the_broker_does_not_answer_and_a_second_signal(own_broker, tmp_path: Path) -> None:
    cluster = Cluster(QUERY, own_broker.bootstrap, tmp_path, settings={"app": "silent"}, source_partitions=4)
    with clustered(cluster), Load(own_broker.bootstrap, cluster.source, partitions=4, rate=1000):
        cluster.await_settled()
        wait_for("the counter puts out", lambda: len(cluster.outputs()) > 0, 30.0, cluster.describe)
        source, count = cluster.pods["source-0"].stage, cluster.pods["count-0"].stage
        own_broker.pause()
        try:
            source.terminate()
            count.terminate()
            time.sleep(1.0)  # between the two signals, as somebody's patience ends
            assert count.alive, f"the test shows nothing, the first signal was enough. {count.describe()}"
            count.terminate()
            assert count.wait(AT_ONCE_S) != 0
            source.require_clean_exit(2 * STOP_LIMIT_S)
        finally:
            own_broker.resume()
