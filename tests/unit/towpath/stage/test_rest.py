"""When a replica takes its next batch: it rests between two, unless rows wait that can go on."""

from __future__ import annotations

from dataclasses import replace

import pytest

from statemgr.control.records import Manner, Strategy
from tests.unit.towpath.stage.cluster import QUICK, Cluster

INTERVAL_S = 0.01
"""Default of ``batch_interval_ms``."""


@pytest.mark.parametrize("draining", [False, True])
def test_batches_keep_their_distance_also_while_a_replica_waits_for_its_tasks_to_be_moved_away(draining: bool) -> None:
    cluster = Cluster(Manner(strategy=Strategy.HYBRID), limits=replace(QUICK, prepare_timeout_s=600.0))
    node = cluster.add("a")
    cluster.settle()
    if draining:
        other = cluster.add("b")
        for _ in range(3):
            cluster.step()
        other.stuck = True  # a member, but never ready for the tasks of a
        cluster.drain("a")
    before, began_s = node.commits(), cluster.clock.monotonic_s()
    while (passed_s := cluster.clock.monotonic_s() - began_s) < 2.0:
        cluster.write([{"auction": 1}])
        cluster.step()
    assert not node.left
    assert 0 < node.commits() - before <= passed_s / INTERVAL_S + 1
    cluster.close()
