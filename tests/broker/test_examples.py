"""The examples as real processes, which change in number while their input comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from examples.components import graph, program
from examples.fraud import query as fraud
from examples.fraud import transactions
from examples.sending import send
from tests.harness.cluster import Cluster, clustered, hand_overs
from tests.harness.deployment import read_outputs
from tests.harness.waiting import wait_for
from towpath.broker import LocalBroker

pytestmark = pytest.mark.slow

PARTITIONS = 4
RATE = 400
LIMIT_S = 60.0


def grown(cluster: Cluster, stage: str) -> None:
    """One replica more, which has tasks."""
    cluster.scale(stage, 2)
    wait_for("the newcomer is a member", lambda: cluster.all_are_members(stage), LIMIT_S, cluster.describe)


def test_frauds_are_found_once_while_the_stage_grows(broker: LocalBroker, tmp_path: Path) -> None:
    settings = {"partitions": PARTITIONS}
    given = list(transactions.records())
    expected = transactions.expected_alerts(event for place, event in given if place is not None)
    cluster = Cluster(
        "examples.fraud.query", broker.bootstrap, tmp_path, settings=settings, source_partitions=PARTITIONS
    )
    with clustered(cluster):
        cluster.await_settled()
        half = len(given) // 2
        send(broker.bootstrap, fraud.TOPIC, given[:half], partitions=PARTITIONS, rate=RATE)
        grown(cluster, "detect")
        send(broker.bootstrap, fraud.TOPIC, given[half:], partitions=PARTITIONS, rate=RATE)
        cluster.drain()
        wait_for("all alerts are there", lambda: len(cluster.outputs()) >= len(expected), LIMIT_S, cluster.describe)
        cluster.await_settled(complete=False)
        moved = hand_overs(cluster.control()[1], "detect")
        cluster.freeze()
    assert without_partition(cluster.outputs()) == expected
    assert any(moved.values())


def without_partition(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """By card and time."""
    fields = [{name: value for name, value in row.items() if name != "__partition"} for row in rows]
    return sorted(fields, key=lambda row: (row["card"], row["match_start"]))


def test_components_are_those_of_the_whole_graph_through_growth_a_kill_and_shrinking(
    broker: LocalBroker, tmp_path: Path
) -> None:
    edges = graph.edge_list()
    given = list(graph.records(edges))
    cluster = Cluster("examples.components.program", broker.bootstrap, tmp_path, source_partitions=PARTITIONS)
    with clustered(cluster):
        cluster.await_settled()
        third = len(given) // 3
        send(broker.bootstrap, program.edges.name, given[:third], partitions=PARTITIONS)
        grown(cluster, "thin")
        send(broker.bootstrap, program.edges.name, given[third : 2 * third], partitions=PARTITIONS)
        victim = cluster.working("thin")[0]
        victim.stage.kill()
        victim.report_died()
        victim.revive()
        send(broker.bootstrap, program.edges.name, given[2 * third :], partitions=PARTITIONS)
        cluster.await_settled(complete=False)
        cluster.scale("thin", 1)
        cluster.await_settled(complete=False)
        cluster.drain()
        moved = hand_overs(cluster.control()[1], "thin")
        cluster.freeze()
    found = {row["node"]: row["component"] for row in read_outputs(broker.bootstrap, program.components.name)}
    assert found == graph.expected_components(edges)
    assert any(moved.values())
