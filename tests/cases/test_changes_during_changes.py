"""A change of size every second, each while the former is under way: results are those of an undisturbed run."""

from __future__ import annotations

from typing import Any

import pytest

from statemgr.control.records import Strategy
from tests.cases.clusters import KEYS, grown, running, work
from tests.unit.towpath.stage.cluster import Cluster

NAMES = "abcd"

GAP_S = 0.5
"""Between two changes of size."""

REST_TURNS = 200
"""Without input: a second of simulated time at least, in which whatever were still to be done would be begun."""


def work_for(cluster: Cluster, seconds: float) -> None:
    """Input in every step for some simulated time."""
    end_s = cluster.clock.monotonic_s() + seconds
    work(cluster, lambda: cluster.clock.monotonic_s() >= end_s)


def resize(cluster: Cluster, count: int) -> None:
    """What a supervisor does about another number of replicas: it starts some, or asks the newest to leave."""
    working = [name for name, node in cluster.nodes.items() if not node.stopping]
    for name in NAMES[len(working) : count]:
        cluster.add(name)
    for name in working[count:]:
        cluster.drain(name)


def come_to_rest(cluster: Cluster) -> None:
    """All state has come, all who were asked to leave have left, and from then on nothing happens any more."""
    cluster.hurry()
    cluster.settle()
    cluster.rest()
    leaving = [node for node in cluster.nodes.values() if node.stopping]
    cluster.until("all who were asked to leave have left", lambda: all(node.left for node in leaving))
    for _ in range(REST_TURNS):  # standby copies are made
        cluster.step()
    mark = cluster.journal.mark
    for _ in range(REST_TURNS):
        cluster.step()
    assert cluster.journal.events(mark) == []


def results(cluster: Cluster) -> tuple[dict[bytes, Any], dict[int, list[int]]]:
    """Final state, and each auction's outputs in order."""
    counts: dict[int, list[int]] = {}
    for record in cluster.output():
        counts.setdefault(record.value["auction"], []).append(record.value["count"])
    return cluster.state(), counts


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(2, 3, 2), (2, 3, 4)], ids=["2-3-2", "2-3-4"])
@pytest.mark.parametrize("strategy", Strategy)
def test_a_change_of_size_soon_after_another_changes_no_result(strategy: Strategy, sizes: tuple[int, ...]) -> None:
    cluster = grown(*NAMES[: sizes[0]], strategy=strategy, bins=64)
    work_for(cluster, GAP_S)
    for count in sizes[1:]:
        assert count == sizes[1] or not cluster.settled(), "the former change is over before this one begins"
        resize(cluster, count)
        work_for(cluster, GAP_S)
    work(cluster, running(cluster, *NAMES[: sizes[-1]]))
    come_to_rest(cluster)
    cluster.assert_exact()
    undisturbed = grown(*NAMES[: sizes[0]], strategy=strategy)
    undisturbed.write(cluster.sent[KEYS:])
    undisturbed.rest()
    assert results(cluster) == results(undisturbed)
