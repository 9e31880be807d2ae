"""A store that is lost although copies of it exist: what is read again, and by whom."""

from __future__ import annotations

import pytest

from statemgr.control.records import Strategy
from statemgr.errors import CorruptStoreError
from statemgr.types import TaskId
from tests.cases.clusters import KEYS, grown, work
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster


def standing_by() -> Cluster:
    cluster = grown("a", "b", strategy=Strategy.STANDBY, keys=[*range(KEYS)] * 5)
    cluster.until("every task has a copy", lambda: len(ready(cluster)) == TASKS)
    return cluster


def ready(cluster: Cluster) -> set[int]:
    return {task.partition for node in cluster.nodes.values() for task, _ in node.coordinated._arrivals.ready()}


def test_with_its_machine_lost_a_task_goes_to_the_standby_that_reads_no_more_than_the_tail() -> None:
    cluster = standing_by()
    node = cluster.nodes["a"]
    orphans = list(node.owned())
    before = cluster.nodes["b"].restored()
    node.asleep = True
    cluster.cut.add("a")
    began_s = cluster.clock.monotonic_s()
    cluster.coordinator.died(STAGE, "a")
    work(cluster, lambda: set(orphans) <= set(cluster.nodes["b"].owned()))
    assert cluster.clock.monotonic_s() - began_s < 10.0
    assert cluster.nodes["b"].restored() - before < KEYS / 4
    cluster.nodes.pop("a")
    cluster.assert_exact()


def test_a_store_that_is_found_damaged_at_work_is_rebuilt_and_nothing_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = standing_by()
    node = cluster.nodes["a"]
    partition = next(iter(node.owned()))
    state = node.replica.owned[partition].state
    assert state is not None
    error = CorruptStoreError("damaged", task=TaskId(STAGE, partition), epoch=1)
    monkeypatch.setattr(state.store, "get_many", lambda _: (_ for _ in ()).throw(error))
    began_s = cluster.clock.monotonic_s()
    work(cluster, lambda: node.replica.owned.get(partition) is None or node.replica.lost_s is not None, most=50)
    work(cluster, lambda: len(cluster.owners()) == TASKS)
    assert cluster.clock.monotonic_s() - began_s < 10.0
    cluster.assert_exact()
