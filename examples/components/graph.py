"""A random graph with many components, always the same one for a seed, as edges in random order.

``python -m examples.components.graph`` writes the edges to the local broker; ``--expected`` prints the components that
networkx finds in them instead.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable, Iterator

from examples.components.program import PARTITIONS, edges
from examples.sending import Sent, send

EdgeEnds = tuple[int, int]


def edge_list(seed: int = 1, nodes: int = 2_000, groups: int = 50) -> list[EdgeEnds]:
    """Edges in the order in which they come: within each group of nodes a tree, and as many edges again.

    Some come twice, some lead from a node to itself.
    """
    chance = random.Random(seed)  # noqa: S311 - a simulation, nothing secret
    names = chance.sample(range(10 * nodes), nodes)
    found: list[EdgeEnds] = []
    for group in range(groups):
        members = names[group::groups]
        found += [(node, members[chance.randrange(number + 1)]) for number, node in enumerate(members)]
        found += [(chance.choice(members), chance.choice(members)) for _ in members]
    chance.shuffle(found)
    return found


def records(given: Iterable[EdgeEnds]) -> Iterator[Sent]:
    """The edges, spread over all partitions."""
    for number, (u, v) in enumerate(given):
        yield number, {"u": u, "v": v}


def expected_components(given: Iterable[EdgeEnds]) -> dict[int, int]:
    """Node → the least node that it is connected with, by networkx."""
    import networkx as nx

    graph = nx.Graph(given)
    return {node: min(members) for members in nx.connected_components(graph) for node in members}


def main() -> None:
    """Write the edges, or print what must be found in them."""
    parser = argparse.ArgumentParser(
        prog="python -m examples.components.graph",
        description="Edges of a random graph.",
        epilog="example: python -m examples.components.graph --rate 500",
    )
    parser.add_argument("--bootstrap", default="127.0.0.1:9092", help="broker (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="another graph (default: %(default)s)")
    parser.add_argument("--nodes", type=int, default=2_000, help="number of nodes (default: %(default)s)")
    parser.add_argument("--groups", type=int, default=50, help="number of components (default: %(default)s)")
    parser.add_argument("--rate", type=float, help="edges a second (default: as fast as they go)")
    parser.add_argument("--expected", action="store_true", help="print the components, and send nothing")
    given = parser.parse_args()
    chosen = edge_list(given.seed, given.nodes, given.groups)
    if given.expected:
        for node, component in sorted(expected_components(chosen).items()):
            print(json.dumps({"node": node, "component": component}))  # noqa: T201 - a command
        return
    sent = send(given.bootstrap, edges.name, records(chosen), partitions=PARTITIONS, rate=given.rate)
    print(f"{sent} edges to {edges.name}")  # noqa: T201 - a command


if __name__ == "__main__":
    main()
