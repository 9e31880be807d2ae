"""The components example: every node has the least node that it is connected with, as networkx has it."""

from __future__ import annotations

import random

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.components import program
from examples.components.graph import edge_list, expected_components
from examples.components.sets import joined, relabelled
from towpath.query import load_query
from towpath.testing import StageDriver

EDGES = st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), max_size=40)


@settings(deadline=None)
@given(EDGES)
def test_edges_that_join_two_sets_are_a_forest_with_the_same_components(edges):
    table = {}
    kept = [edge for edge in edges if joined(table, *edge)]
    assert expected_components(kept) == expected_components(edges)
    assert nx.number_of_selfloops(nx.Graph(kept)) == len([edge for edge in kept if edge[0] == edge[1]])
    between = [edge for edge in kept if edge[0] != edge[1]]
    assert not between or nx.is_forest(nx.MultiGraph(between))


@settings(deadline=None)
@given(EDGES)
def test_the_last_label_of_each_node_is_the_least_node_of_its_component(edges):
    table, last = {}, {}
    for number, edge in enumerate(edges, 1):
        before = dict(last)
        changed = relabelled(table, *edge)
        last |= dict(changed)
        assert all(before.get(node) != label for node, label in changed)
        assert last == expected_components(edges[:number])
        assert {node: least for node, (least, _) in table.items()} == last


def test_paths_stay_short():
    table = {}
    edges = [(node, node + 1) for node in range(1023)]
    random.Random(1).shuffle(edges)
    for edge in edges:
        joined(table, *edge)

    def depth(node):
        return 0 if table[node][0] == node else 1 + depth(table[node][0])

    assert max(map(depth, table)) <= 10


def test_it_is_found_by_its_name():
    assert load_query("examples.components.program").names == ["thin-by-u", "thin", "label"]


def labels(driver):
    """Node → its last label; a node's labels only become less."""
    found = {}
    for record in driver.output("graph-components"):
        value = program.Component.loads(record.value)
        assert value.component < found.get(value.node, value.node + 1)
        found[value.node] = value.component
    return found


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("lose_stores", [False, True])
def test_components_are_those_of_the_whole_graph_through_rescales_and_crashes(seed, lose_stores):
    chance, edges = random.Random(seed), edge_list(seed, nodes=200, groups=12)
    driver = StageDriver(program.app, replicas={"thin": 1})
    third = len(edges) // 3
    for number, replicas in enumerate((1, 2, 1)):
        driver.scale("thin", replicas)
        for u, v in edges[number * third : (number + 1) * third if number < 2 else None]:
            driver.pipe("graph-edges", [{"u": u, "v": v}], partition=chance.randrange(4))
            if chance.random() < 0.1:
                driver.run_once()
            if chance.random() < 0.02:
                driver.crash(chance.choice(["thin-by-u", "label"]), lose_stores=lose_stores)
                driver.crash("thin", chance.randrange(replicas), lose_stores=lose_stores)
        driver.run_until_idle()
    assert labels(driver) == expected_components(edges)
    assert len(driver.rows("graph-forest")) < len(edges)
    driver.close()
