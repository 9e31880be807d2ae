"""Disjoint sets in an agent's table, whose rows need many entries each, while their tasks move."""

from __future__ import annotations

import random

import msgspec
import networkx as nx
import pytest

from examples.components.graph import expected_components
from examples.components.sets import joined
from statemgr.control.records import Manner, Strategy
from tests.cases.clusters import running
from tests.unit.towpath.stage.cluster import STAGE, TASKS, Cluster
from tests.unit.towpath.stage.plans import APP, SINK, SOURCE
from towpath import faust

NODES = 150
STEPS = 30

app = faust.App(APP, topic_partitions=TASKS)


class Link(faust.Record):
    """An edge; its first end decides its task."""

    auction: int
    other: int


links = app.topic(SOURCE, value_type=Link, partitions=TASKS)
thinned = app.topic(SINK, value_type=Link)
forest = app.Table("forest", key_type=int, value_type=list[int])


@app.agent(links, name=STAGE)
async def thin(stream):
    async for link in stream:
        if joined(forest, link.auction, link.other):
            await thinned.send(key=link.auction, value=link)


def feed(cluster: Cluster, chance: random.Random) -> None:
    cluster.write([{"auction": chance.randrange(NODES), "other": chance.randrange(NODES)}])
    cluster.step()


@pytest.mark.parametrize(
    "strategy", [Strategy.RESTART, Strategy.REPLAY, Strategy.BLOCK, Strategy.PRECOPY, Strategy.LAZY, Strategy.HYBRID]
)
def test_each_task_passes_on_a_forest_of_its_edges_wherever_it_is(strategy: Strategy) -> None:
    chance = random.Random(strategy)
    cluster = Cluster(Manner(strategy=strategy, bins=4), plan=app.plan().stage(STAGE))
    cluster.add("a")
    cluster.settle()
    for _ in range(STEPS):
        feed(cluster, chance)
    cluster.add("b")
    cluster.until("b has tasks", lambda: feed(cluster, chance) or set(cluster.owners().values()) == {"a", "b"})
    for _ in range(STEPS):
        feed(cluster, chance)
    cluster.drain("a")
    cluster.until("b has all", lambda: feed(cluster, chance) or running(cluster, "b")())
    for _ in range(STEPS):
        feed(cluster, chance)
    cluster.settle()
    cluster.rest()
    passed = [msgspec.json.decode(record.value, type=Link) for record in cluster.output()]
    for task in range(TASKS):
        mine = [(link.auction, link.other) for link in passed if link.auction % TASKS == task]
        all_of_it = [(row["auction"], row["other"]) for row in cluster.sent if row["auction"] % TASKS == task]
        assert expected_components(mine) == expected_components(all_of_it)
        assert nx.is_forest(nx.MultiGraph([edge for edge in mine if edge[0] != edge[1]]))
    cluster.close()
