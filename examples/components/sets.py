"""Disjoint sets over a table: an entry of state for each node, so that they live in stores and changelogs as they are.

Two structures, for two questions. :func:`joined` tells whether an edge joins two sets (union by size: Tarjan and van
Leeuwen, "Worst-case Analysis of Set Union Algorithms", JACM 31(2), 1984). :func:`relabelled` keeps the least node of
each set at every one of its nodes, and says which nodes got another.
"""

from __future__ import annotations

from typing import Protocol

Entry = list[int]


class Nodes(Protocol):
    """Node → entry: a dict, or a :class:`towpath.faust.Table`."""

    def __getitem__(self, node: int) -> Entry:
        """The entry of a node that has one."""
        ...

    def __setitem__(self, node: int, entry: Entry) -> None:
        """Set an entry; one that was got is never changed in place."""
        ...

    def __contains__(self, node: object) -> bool:
        """Whether the node has an entry."""
        ...


def joined(forest: Nodes, u: int, v: int) -> bool:
    """Put two nodes into one set; whether they were not before. A node's first edge to itself counts, too.

    An entry is ``[parent, size]``; a root is its own parent. The smaller tree goes below the root of the larger one, so
    a path has at most log2(n) steps, and two entries are written. Paths are not shortened: that would write more.
    """
    new = u not in forest
    for node in (u, v):
        if node not in forest:
            forest[node] = [node, 1]
    small, large = sorted(_root(forest, node) for node in (u, v))
    if small[1] == large[1]:
        return new and u == v
    forest[small[1]] = [large[1], small[0]]
    forest[large[1]] = [large[1], small[0] + large[0]]
    return True


def _root(forest: Nodes, node: int) -> tuple[int, int]:
    """Size of the node's tree, and its root."""
    parent, size = forest[node]
    while parent != node:
        node = parent
        parent, size = forest[node]
    return size, node


def relabelled(sets: Nodes, u: int, v: int) -> list[tuple[int, int]]:
    """Put two nodes into one set; gives each node whose least node is another now, new nodes included, with it.

    An entry is ``[least, next]``: the least node of the set, and the next one in a ring of all its nodes. Two rings
    become one when two of their nodes change what follows them, so only entries that must change are written.
    """
    changed = {node: node for node in (u, v) if node not in sets}
    for node in changed:
        sets[node] = [node, node]
    least, greatest = sorted((sets[u][0], sets[v][0]))
    if least != greatest:
        node = greatest
        while sets[node][0] != least:
            sets[node] = [least, sets[node][1]]
            changed[node] = least
            node = sets[node][1]
        behind_u, behind_v = sets[u][1], sets[v][1]
        sets[u] = [least, behind_v]
        sets[v] = [least, behind_u]
    return list(changed.items())
