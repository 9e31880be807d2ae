"""What is told of a move's time is the time that it took; and nothing moves that nobody asked for."""

from __future__ import annotations

import pytest

from statemgr.control.records import FROM_CHANGELOG, Assigned, Desired, Strategy
from statemgr.types import TaskId
from tests.cases.clusters import KEYS, grown, running, settled, work
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster, rows_of
from tests.unit.towpath.stage.journal import Rows
from towpath.coordinator.statuses import MigrationStatus
from towpath.coordinator.views import migration_statuses
from towpath.stage.link import INTERVAL_S

PRECISION_S = 2 * INTERVAL_S
"""A heartbeat each at both ends."""


def status_of(cluster: Cluster, partition: int, epoch: int) -> MigrationStatus:
    with cluster.coordinator.look() as facts:
        found = [each for each in migration_statuses(facts) if (each.partition, each.epoch) == (partition, epoch)]
    return found[0]


@pytest.mark.parametrize("strategy", [Strategy.HYBRID, Strategy.BLOCK, Strategy.PRECOPY, Strategy.REPLAY])
def test_the_pause_that_is_told_is_that_from_the_decision_to_the_first_output_at_the_new_owner(
    strategy: Strategy,
) -> None:
    cluster = grown("a", "b", strategy=strategy)
    partition = next(iter(cluster.nodes["a"].owned()))
    asked_s = cluster.clock.monotonic_s()
    cluster.move(partition, "b")
    cluster.until("it is decided", lambda: cluster.coordinator.view.of(TaskId(STAGE, partition)).owner == "b")
    decided_s = cluster.clock.monotonic_s()
    before = len(cluster.output())
    cluster.write(rows_of([partition]))
    cluster.until("the new owner has put out", lambda: len(cluster.output()) > before)
    assert cluster.owners()[partition] == "b"
    took_s = cluster.clock.monotonic_s() - decided_s
    settled(cluster)
    status = status_of(cluster, partition, 2)
    assert status.step == "done"
    assert status.paused_s is not None
    assert abs(status.paused_s - took_s) <= PRECISION_S
    assert status.elapsed_s <= cluster.clock.monotonic_s() - asked_s


def test_a_longer_move_is_told_as_longer() -> None:
    cluster = grown("a", "b")
    partition = next(iter(cluster.nodes["a"].owned()))
    cluster.move(partition, "b")
    cluster.until("it is decided", lambda: cluster.coordinator.view.of(TaskId(STAGE, partition)).owner == "b")
    cluster.nodes["b"].asleep = True
    for _ in range(100):
        cluster.step()
    slept_s = 100 * 0.005
    cluster.nodes["b"].asleep = False
    settled(cluster)
    assert (status_of(cluster, partition, 2).paused_s or 0.0) >= slept_s


def test_a_step_of_load_moves_nothing_by_itself() -> None:
    cluster = grown("a", "b")
    mark = cluster.journal.mark
    for _ in range(20):
        cluster.write(rows_of(range(KEYS)))
        cluster.step()
    cluster.rest()
    assert [event for event in cluster.journal.events(mark) if isinstance(event, Assigned | Desired)] == []


def test_one_wish_is_one_round_of_moves() -> None:
    cluster = grown("a", "b")
    cluster.add("c")
    cluster.until("c has its share", running(cluster, "a", "b", "c"))
    mark = cluster.journal.mark
    for _ in range(50):
        cluster.write(rows_of(range(8)))
        cluster.step()
    assert [event for event in cluster.journal.events(mark) if isinstance(event, Assigned)] == []
    assigned = [event.task for event in cluster.journal.events() if isinstance(event, Assigned) and event.epoch > 1]
    assert len(assigned) == len(set(assigned)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("strategy", Strategy)
def test_with_no_migration_under_way_no_bytes_flow_between_replicas(strategy: Strategy) -> None:
    """Whatever one replica has of another comes by a request to a state manager: none is made, whatever the load."""
    cluster = grown("a", "b", strategy=strategy)
    cluster.add("c")
    work(cluster, running(cluster, "a", "b", "c"))
    cluster.hurry()  # what is fetched only when it is needed comes now: a task that lacks state is still migrating
    settled(cluster)
    if strategy is Strategy.STANDBY:
        cluster.until("every task has its copy", lambda: copies(cluster) == TASKS)
    assert bool(cluster.journal.requests()) == (strategy not in FROM_CHANGELOG)
    mark, rows = cluster.journal.mark, len(cluster.sent)
    work(cluster, lambda: len(cluster.sent) > rows + 3 * KEYS)
    cluster.rest()
    assert cluster.journal.requests(since=mark) == []
    assert [event for event in cluster.journal.events(mark) if isinstance(event, Rows)]


def copies(cluster: Cluster) -> int:
    """Whole copies that wait for a task."""
    return sum(len(node.coordinated._arrivals._preparations.ready()) for node in cluster.nodes.values())
