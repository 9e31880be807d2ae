"""Places for the nodes of a graph without cycles: layer by layer, so that arrows lead from left to right.

Sugiyama, Tagawa and Toda, "Methods for Visual Understanding of Hierarchical System Structures", 1981, in its simplest
form: layers by the longest way, bends where an arrow passes a layer, order in a layer by the middle of what is before.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, TypeVar

N = TypeVar("N", bound=Hashable)


class Bend(NamedTuple):
    """Where arrow number ``arrow`` passes layer ``layer``."""

    arrow: int
    layer: int


Spot = Hashable
"""A node, or a :class:`Bend`."""


def layers_of(nodes: Sequence[N], arrows: Sequence[tuple[N, N]]) -> dict[N, int]:
    """Layer of each node: the longest way that leads to it; nodes come in topological order."""
    found = dict.fromkeys(nodes, 0)
    for node in nodes:
        for begin, end in arrows:
            if begin == node:
                found[end] = max(found[end], found[node] + 1)
    return found


def ordered(nodes: Sequence[N], arrows: Sequence[tuple[N, N]]) -> tuple[list[list[Spot]], list[list[Spot]]]:
    """Layers from left to right, each from top to bottom, and the spots that each arrow passes, ends included."""
    layer = layers_of(nodes, arrows)
    ways: list[list[Spot]] = [
        [begin, *(Bend(number, at) for at in range(layer[begin] + 1, layer[end])), end]
        for number, (begin, end) in enumerate(arrows)
    ]
    rows: list[list[Spot]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for node in nodes:
        rows[layer[node]].append(node)
    for way in ways:
        for spot in way:
            if isinstance(spot, Bend):
                rows[spot.layer].append(spot)
    before: dict[Spot, list[Spot]] = {}
    for way in ways:
        for left, right in pairwise(way):
            before.setdefault(right, []).append(left)
    place: dict[Spot, float] = {}
    for row in rows:
        row.sort(key=lambda spot: _middle(before.get(spot, ()), place))
        place |= {spot: float(index) for index, spot in enumerate(row)}
    return rows, ways


def _middle(spots: Sequence[Spot], place: Mapping[Spot, float]) -> float:
    return sum(place[spot] for spot in spots) / len(spots) if spots else 0.0
