"""A replica that wants to leave waits for a coordinator that leads, and for no other."""

from __future__ import annotations

from statemgr.control.records import Manner
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster
from towpath.coordinator.coordinator import Coordinator
from towpath.coordinator.facts import StageFacts
from towpath.stage.coordinated import UNHEARD_S
from towpath.stage.link import INTERVAL_S


def test_one_that_stands_by_is_as_good_as_none() -> None:
    """It answers, but its answers mean nothing: nobody will move the tasks, however long one waits."""
    cluster = Cluster(Manner())
    cluster.add("a")
    cluster.settle()
    other = Coordinator("kc", [StageFacts(STAGE, TASKS, stateful=True)], cluster.kafka, cluster.clock, name="other")
    other.start()
    cluster.until("it stands by", lambda: not cluster.coordinator.leading)
    cluster.drain("a")
    began_s = cluster.clock.monotonic_s()
    cluster.until("it has left", lambda: cluster.nodes["a"].left, 2 * UNHEARD_S)
    assert cluster.clock.monotonic_s() - began_s >= UNHEARD_S - INTERVAL_S
    other.close()
