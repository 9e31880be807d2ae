"""SIGTERM in every state ends a replica with status 0 within the limit; a second one ends it at once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from statemgr.kafka.confluent import ConfluentKafka
from tests.harness.deployment import Deployment, deployed
from tests.harness.load import Load, create_topic
from tests.harness.processes import STOP_LIMIT_S, ReplicaProcess
from tests.harness.waiting import wait_for

pytestmark = pytest.mark.slow

QUERY = "tests.harness.bid_counts"
NOTHING_LISTENS = "127.0.0.1:1"
AT_ONCE_S = 2.0
"""A second signal ends the process without waiting for anything; the rest is for a busy machine."""

BIG_CHANGELOG = 1_500_000
"""Records that take several seconds to restore."""

MakeReplica = Callable[..., ReplicaProcess]


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[MakeReplica]:
    """Makes replicas, and leaves none behind."""
    made: list[ReplicaProcess] = []

    def make(stage: str, bootstrap: str, app: str = "counts", *options: str) -> ReplicaProcess:
        made.append(ReplicaProcess(QUERY, stage, tmp_path, bootstrap, options=["--set", f"app={app}", *options]))
        return made[-1]

    yield make
    for process in made:
        process.close()


def test_while_nothing_listens_at_the_broker_s_address(replica):
    process = replica("count", NOTHING_LISTENS)
    process.start()
    process.await_phase("starting")
    process.stop()


def test_while_the_source_topic_is_missing(replica, broker, unique_name):
    process = replica("source", broker.bootstrap, unique_name("missing"))
    process.start()
    process.await_phase("starting")
    process.stop()


def test_while_idle_and_a_second_signal_after_the_end_is_no_matter(replica, broker, unique_name):
    process = replica("count", broker.bootstrap, unique_name("idle"))
    process.start()
    process.await_running()
    took = process.stop()
    assert took < STOP_LIMIT_S / 2, f"an idle replica took {took:.1f} s to stop"


def test_while_restoring_a_large_changelog(replica, broker, unique_name):
    app = unique_name("restoring")
    process = replica("count", broker.bootstrap, app)
    process.start()
    process.await_running()
    process.stop()
    fill_changelog(broker.bootstrap, f"{app}.count.changelog")
    process.wipe_state()
    process.start()
    process.await_phase("restoring")
    process.stop()
    assert "running" not in process.log(), "the restore was over before the signal: make the changelog larger"


def test_under_load_nothing_is_left_unfinished(broker, unique_name, tmp_path):
    app = unique_name("loaded")
    deployment = Deployment(QUERY, broker.bootstrap, tmp_path, settings={"app": app}, source_partitions=4)
    with deployed(deployment):
        deployment.await_running()
        with Load(broker.bootstrap, deployment.source, partitions=4, rate=5000):
            for name in deployment.replicas:
                deployment[name].await_running()
            deployment.stop()
        for replica in deployment.replicas.values():
            assert "last commit failed" not in replica.log(), replica.describe()


@pytest.mark.parametrize("trouble", ["stopped", "paused"])
def test_while_the_broker_is_away(own_broker, tmp_path, trouble):
    deployment = Deployment(QUERY, own_broker.bootstrap, tmp_path, settings={"app": trouble}, source_partitions=4)
    with deployed(deployment), Load(own_broker.bootstrap, deployment.source, partitions=4, rate=2000):
        deployment.await_running()
        if trouble == "paused":
            own_broker.pause()
        else:
            own_broker.stop()
        try:
            deployment.stop()
        finally:
            own_broker.start() if trouble == "stopped" else own_broker.resume()


def test_while_starting_with_a_broker_that_does_not_answer(own_broker, replica):
    create_topic(own_broker.bootstrap, "silent-events", 4)
    process = replica("source", own_broker.bootstrap, "silent")
    own_broker.pause()
    process.start()
    process.await_phase("starting")
    try:
        process.stop()
    finally:
        own_broker.resume()


def test_a_second_signal_ends_the_process_at_once(own_broker, tmp_path):
    deployment = Deployment(QUERY, own_broker.bootstrap, tmp_path, settings={"app": "twice"}, source_partitions=4)
    with deployed(deployment), Load(own_broker.bootstrap, deployment.source, partitions=4, rate=2000):
        deployment.await_running()
        # Under way, so that there is something to commit, and the first signal can't be enough.
        wait_for("the counter puts out", lambda: len(deployment.outputs()) > 0, 30.0, deployment.describe)
        own_broker.pause()
        try:
            process = deployment["count-0"]
            process.terminate()
            time.sleep(1.0)  # between the two signals, as somebody's patience ends
            assert process.alive, f"the test shows nothing, the first signal was enough. {process.describe()}"
            process.terminate()
            status = process.wait(AT_ONCE_S)
        finally:
            own_broker.resume()
    assert status not in (0, None)


def fill_changelog(bootstrap: str, topic: str) -> None:
    """Write entries of the table, as a long life of the stage would have."""
    producer = ConfluentKafka(bootstrap).producer(transactional_id=None, name="tests-changelog")
    batch = 50_000
    for start in range(0, BIG_CHANGELOG, batch):
        keys = [b"\0\0%d" % number for number in range(start, start + batch)]
        producer.produce_batch(topic, start // batch % 4, keys, [b"1"] * batch)
    producer.flush(60)
    producer.close()
