"""A handler that never returns: health says where, and nobody else stands still."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from statemgr.control.records import Fenced, Manner, Strategy
from tests.cases.clusters import Standstill
from tests.unit.towpath.stage.cluster import TASKS, Cluster, Node, rows_of
from tests.unit.towpath.stage.plans import SOURCE, count_stage
from towpath.operators.rows import MapBatches
from towpath.query.plan import OperatorPlan, StagePlan
from towpath.stage.health import stalled

STALL_S = 30.0
POISON = 101
"""The auction whose handler never returns; of partition 1."""


class Handler:
    """Handles every auction at once, but for one."""

    def __init__(self) -> None:
        self.standstill: Standstill | None = None

    def __call__(self, rows: Any) -> Any:
        if self.standstill is not None and POISON in rows.get_column("auction").to_list():
            self.standstill.here()
        return rows


def stage(handler: Handler) -> StagePlan:
    plan = count_stage(partitions=TASKS, source_partitions=TASKS)
    before = OperatorPlan("handler", lambda: MapBatches(handler))
    return StagePlan(plan.app, plan.name, plan.inputs, (before, *plan.operators), plan.outputs, plan.tables)


def stuck(beside: Sequence[int] = ()) -> tuple[Cluster, Standstill, str]:
    """A cluster of two whose owner of the poisoned record's partition is in its handler, for ever."""
    handler = Handler()
    cluster = Cluster(Manner(strategy=Strategy.HYBRID), plan=stage(handler))
    cluster.add("a")
    cluster.add("b")
    cluster.settle()
    cluster.write(rows_of(range(40)))
    cluster.rest()
    node = cluster.nodes[cluster.owners()[POISON % TASKS]]
    handler.standstill = Standstill(cluster, node)
    cluster.write(rows_of([POISON, *beside]))
    handler.standstill.begin()
    return cluster, handler.standstill, node.name


def other_than(cluster: Cluster, name: str) -> Node:
    return next(node for node in cluster.nodes.values() if node.name != name)


def counted(cluster: Cluster, auction: int) -> int:
    """The last count that was put out."""
    return max((record.value["count"] for record in cluster.output() if record.value["auction"] == auction), default=0)


def beat(cluster: Cluster, name: str, seconds: float) -> None:
    """Let time pass; the heartbeat of the one that is stuck goes on, since it has a thread of its own."""
    node = cluster.nodes[name]
    end_s = cluster.clock.monotonic_s() + seconds
    while cluster.clock.monotonic_s() < end_s:
        assert node.link.beat is not None
        cluster.coordinator.heartbeat("count", name, node.link.beat)
        cluster.step()
        cluster.clock.advance(0.05)


def test_health_turns_red_and_names_partition_offset_and_age() -> None:
    cluster, standstill, name = stuck()
    replica, clock = cluster.nodes[name].replica, cluster.clock
    assert stalled(replica, clock, STALL_S) is None
    beat(cluster, name, STALL_S + 1)
    said = stalled(replica, clock, STALL_S) or ""
    assert f"processing a batch from {SOURCE}[1] offset 10 for 3" in said
    assert "(limit 30 s)" in said
    standstill.go_on()
    cluster.assert_exact()


def test_every_partition_of_the_batch_is_named_since_any_may_be_the_one_to_blame() -> None:
    cluster, standstill, name = stuck(beside=[POISON + TASKS, POISON + 2, POISON + 2 * TASKS])
    replica, clock = cluster.nodes[name].replica, cluster.clock
    beat(cluster, name, STALL_S)
    said = stalled(replica, clock, STALL_S) or ""
    assert {f"{SOURCE}[1] offset 10", f"{SOURCE}[3] offset 10"} <= set(
        said.removeprefix("processing a batch from ").partition(" for ")[0].split(", ")
    )
    standstill.go_on()
    cluster.assert_exact()


def test_tasks_of_other_replicas_go_on_meanwhile() -> None:
    cluster, standstill, name = stuck()
    other = other_than(cluster, name)
    theirs = sorted(other.owned())
    assert theirs
    for auction in theirs * 5:
        cluster.write(rows_of([auction]))
        beat(cluster, name, 0.3)
    assert {auction: counted(cluster, auction) for auction in theirs} == dict.fromkeys(theirs, 6)
    standstill.go_on()
    cluster.assert_exact()


def test_a_task_is_taken_from_it_by_a_fence_within_the_deadline_of_a_release() -> None:
    cluster, standstill, name = stuck()
    other = other_than(cluster, name)
    partition = next(n for n in cluster.nodes[name].owned() if n != POISON % TASKS)
    cluster.move(partition, other.name)
    mark, began_s = cluster.journal.mark, cluster.clock.monotonic_s()
    limit_s = cluster.coordinator.limits.release_timeout_s + cluster.coordinator.limits.prepare_timeout_s
    while partition not in other.owned():
        beat(cluster, name, 0.1)
        assert cluster.clock.monotonic_s() - began_s < limit_s + 1.0, cluster.describe()
    assert [event.replica for event in cluster.journal.events(mark) if isinstance(event, Fenced)] == [name]
    cluster.write(rows_of([partition]))
    beat(cluster, name, 0.5)
    assert counted(cluster, partition) == 2
    standstill.go_on()
    cluster.assert_exact()


@pytest.mark.parametrize("known_by", ["silence", "its supervisor"])
def test_what_it_had_in_hand_is_never_committed_once_it_was_replaced(known_by: str) -> None:
    cluster, standstill, name = stuck()
    other = other_than(cluster, name)
    if known_by == "its supervisor":
        cluster.coordinator.died("count", name)
    cluster.until("the other owns everything", lambda: len(other.owned()) == TASKS, 10.0)
    cluster.until("the poisoned record is done there", lambda: counted(cluster, POISON) == 1)
    before = len(cluster.output())
    standstill.go_on()
    assert len(cluster.output()) == before
    labels = {"stage": "count", "replica": name}
    assert cluster.nodes[name].metrics.registry.get_sample_value("towpath_producer_lost_total", labels) == 1
    cluster.assert_exact()
