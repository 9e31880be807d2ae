"""What a newcomer does before its first output: nothing that the output would have to wait for."""

from __future__ import annotations

import pytest

from statemgr.control.records import Manner, Strategy
from tests.unit.towpath.stage.cluster import TASKS, Cluster, rows_of
from tests.unit.towpath.stage.under_input import KEYS, grown, running, work

pytestmark = pytest.mark.slow

OFFSETS_INTERVAL_S = 1.0
"""Between two transactions that show offsets, by default."""

TURN_S = 0.2
"""How long ago, at most, the tasks came when the test begins."""


def outputs(cluster: Cluster, partitions: set[int]) -> int:
    return sum(record.value["auction"] % TASKS in partitions for record in cluster.output())


@pytest.fixture
def moved() -> tuple[Cluster, set[int]]:
    """A cluster in which two tasks have just come to a second replica, all of their state being elsewhere."""
    cluster = grown(Manner(strategy=Strategy.LAZY))
    cluster.add("b")
    cluster.until("b runs tasks", running(cluster, "a", "b"))
    return cluster, set(cluster.nodes["b"].owned())


def test_rows_that_wait_are_not_committed_before_the_first_output(moved: tuple[Cluster, set[int]]) -> None:
    cluster, partitions = moved
    newcomer = cluster.nodes["b"]
    before, commits = outputs(cluster, partitions), newcomer.commits()
    work(cluster, lambda: newcomer.commits() > commits)
    assert outputs(cluster, partitions) > before
    cluster.hurry()
    cluster.assert_exact()


def test_rows_whose_state_does_not_come_are_written_down_all_the_same(moved: tuple[Cluster, set[int]]) -> None:
    cluster, partitions = moved
    newcomer = cluster.nodes["b"]
    before, commits = outputs(cluster, partitions), newcomer.commits()
    cluster.cut = {"a"}
    cluster.write(rows_of(range(KEYS)))
    cluster.until("what waits is committed", lambda: newcomer.commits() > commits, 0.5)
    assert outputs(cluster, partitions) == before
    cluster.cut = set()
    cluster.hurry()
    cluster.assert_exact()


def test_offsets_for_display_are_put_off(moved: tuple[Cluster, set[int]]) -> None:
    cluster, _ = moved
    newcomer = cluster.nodes["b"]
    commits, began_s = newcomer.commits(), cluster.clock.monotonic_s()
    cluster.until("offsets are shown", lambda: newcomer.commits() > commits)
    assert cluster.clock.monotonic_s() - began_s >= OFFSETS_INTERVAL_S - TURN_S
