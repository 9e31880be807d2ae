"""A partition is paused only while it has no room for rows that wait for their state, and never for longer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from statemgr.control.records import Strategy
from statemgr.types import TopicPartition
from tests.cases.clusters import KEYS, elapsed_s, grown, owned_by, room_for, work
from tests.unit.towpath.stage.cluster import TASKS, Cluster, Node, rows_of, stored
from tests.unit.towpath.stage.plans import SOURCE

FLOOD = [auction for auction in range(KEYS) for _ in range(3)]


def paused(node: Node) -> set[TopicPartition]:
    return set(node.replica._consumer._paused)  # type: ignore[attr-defined]


def require_reasons(cluster: Cluster) -> None:
    """Paused is exactly what a full task reads from."""
    for node in cluster.nodes.values():
        full = {at for task in node.replica.owned.values() if task.full for at in task.reads_from()}
        assert paused(node) == (set() if node.left else full), cluster.describe()


def watched(cluster: Cluster, look: Callable[[], bool]) -> Callable[[], bool]:
    def looked() -> bool:
        require_reasons(cluster)
        return look()

    return looked


def flooded(cluster: Cluster) -> int:
    """Move tasks to b, and bring more rows than there is room for; gives a partition of b's that is paused then."""
    cluster.add("b")
    cluster.until("b runs a task", lambda: "b" in cluster.owners().values())
    cluster.write(rows_of(FLOOD))
    node = cluster.nodes["b"]
    cluster.until("a partition of b is paused", watched(cluster, lambda: bool(paused(node))), 2.0)
    return min(paused(node)).partition


@pytest.mark.parametrize("strategy", [Strategy.LAZY, Strategy.HYBRID])
def test_a_partition_without_room_goes_on_once_state_has_come(strategy: Strategy) -> None:
    with room_for(4):
        cluster = grown("a", strategy=strategy)
        flooded(cluster)
        cluster.until("all input is processed", watched(cluster, lambda: not paused(cluster.nodes["b"])), 5.0)
        cluster.rest()
        require_reasons(cluster)
    assert not paused(cluster.nodes["b"])


def test_a_paused_partition_that_leaves_and_returns_is_read_within_a_second() -> None:
    with room_for(4):
        cluster = grown("a", strategy=Strategy.LAZY)
        partition = flooded(cluster)
        cluster.move(partition, "a")
        cluster.until("it has left", watched(cluster, owned_by(cluster, partition, "a")))
        assert TopicPartition(SOURCE, partition) not in paused(cluster.nodes["b"])
        cluster.move(partition, "b")
        cluster.until("it is back", watched(cluster, owned_by(cluster, partition, "b")))
        before = cluster.task(partition).positions[SOURCE]
        cluster.write(rows_of([partition]))
        read = watched(cluster, lambda: cluster.task(partition).positions[SOURCE] > before)
        assert elapsed_s(cluster, lambda: cluster.until("it is read", read)) < 1.0
    assert paused(cluster.nodes["a"]) <= {TopicPartition(SOURCE, n) for n in cluster.nodes["a"].owned()}


def test_a_replica_that_lost_its_producer_while_partitions_were_paused_reads_all_of_them_again() -> None:
    with room_for(4):
        cluster = grown("a", strategy=Strategy.LAZY)
        flooded(cluster)
        cluster.nodes["b"].replica.drop("its producer is lost")
        assert not paused(cluster.nodes["b"])
        work(cluster, watched(cluster, lambda: len(cluster.owners()) == TASKS), most=400)
        cluster.rest()
        require_reasons(cluster)


def test_rows_that_wait_never_keep_state_from_coming() -> None:
    """Ten rows have room, thousands come at once: what brings the state shares nothing with what reads the rows."""
    with room_for(10):
        cluster = grown("a")
        cluster.add("b")
        cluster.until("b runs a task", lambda: "b" in cluster.owners().values())
        cluster.write(rows_of(number % KEYS for number in range(5000)))
        cluster.until("all state has come", watched(cluster, cluster.settled), 20.0)
        cluster.assert_exact()


def test_parked_rows_are_those_of_the_owner_s_own_keys_through_two_three_two_replicas() -> None:
    with room_for(6):
        cluster = grown("a", "b", strategy=Strategy.LAZY)
        cluster.add("c")
        cluster.until("c runs a task", lambda: "c" in cluster.owners().values())
        cluster.write(rows_of(FLOOD))
        cluster.step()
        assert any(task.parking and task.parking.rows for task in cluster.nodes["c"].replica.owned.values())
        cluster.drain("c")
        work(cluster, watched(cluster, lambda: cluster.nodes["c"].left))
        for node in cluster.nodes.values():
            for partition in node.owned():
                parking = node.replica.owned[partition].parking
                theirs = {stored(auction) for auction in range(partition, KEYS + TASKS, TASKS)}
                assert parking is None or set(parking.keys) <= theirs
        cluster.assert_exact()
