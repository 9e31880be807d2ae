"""One task, three replicas: one works, two are idle and healthy, however long; then one takes over."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from tests.cases.clusters import elapsed_s, grown, work
from tests.harness.cluster import Cluster, clustered
from tests.harness.load import Load
from tests.harness.waiting import wait_for
from tests.unit.towpath.stage.cluster import STAGE, TASKS

QUERY = "tests.harness.bid_counts"
TAKE_OVER_S = 15.0


@pytest.mark.slow
def test_one_works_two_stand_by_and_one_of_them_takes_over(broker, unique_name, tmp_path: Path) -> None:
    app = unique_name("idle")
    settings = {"app": app, "partitions": 1}
    cluster = Cluster(QUERY, broker.bootstrap, tmp_path, settings=settings, source_partitions=1)
    with clustered(cluster, {"count": 3}), Load(broker.bootstrap, cluster.source, partitions=1, rate=500):
        cluster.await_settled()
        stages = {pod.name: pod.stage for pod in cluster.working("count")}
        wait_for("the owner puts out", lambda: len(cluster.outputs()) > 0, 30.0, cluster.describe)
        idle = {name: stage.get("/ready")[1]["idle"] for name, stage in stages.items()}
        assert sorted(idle.values()) == [False, True, True]
        assert [stage.get("/health")[0] for stage in stages.values()] == [200, 200, 200]
        (owner,) = [name for name, rests in idle.items() if not rests]
        stages[owner].kill()
        began_s, before = time.monotonic(), len(cluster.outputs())
        heirs = [stage for name, stage in stages.items() if name != owner]
        wait_for("another owns the task", lambda: any(heir.get("/tasks")[1] for heir in heirs), TAKE_OVER_S)
        wait_for("it puts out", lambda: len(cluster.outputs()) > before, TAKE_OVER_S, cluster.describe)
        assert time.monotonic() - began_s < TAKE_OVER_S
        assert members_of(broker.bootstrap, f"{app}.count") == 0


def members_of(bootstrap: str, group: str) -> int:
    """Members of a consumer group: whoever takes part in its rebalances."""
    with AdminClient({"bootstrap.servers": bootstrap}) as admin:
        return len(admin.describe_consumer_groups([group])[group].result(10).members)


def test_a_replica_that_was_idle_for_a_long_time_takes_over_at_once() -> None:
    cluster = grown("a", keys=range(8))
    for name in ("b", "c", "d", "e"):
        cluster.add(name)
    work(cluster, lambda: len(set(cluster.owners().values())) == TASKS)
    cluster.settle()
    (idle,) = [node for node in cluster.nodes.values() if not node.owned()]
    for _ in range(9):
        cluster.clock.advance(100.0)
        cluster.step()
    cluster.rest()
    assert not idle.owned()
    owner = cluster.nodes[cluster.owners()[0]]
    owner.asleep = True
    cluster.coordinator.died(STAGE, owner.name)
    assert elapsed_s(cluster, lambda: work(cluster, lambda: 0 in idle.owned())) < TAKE_OVER_S
    cluster.nodes.pop(owner.name)
    cluster.assert_exact()
