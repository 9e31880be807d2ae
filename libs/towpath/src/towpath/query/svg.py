"""A plan as a picture: stages as boxes, topics that come from or go outside as pills, edges as arrows.

Nothing is loaded by it, so that it can be shown, mailed or put into a page as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from textwrap import wrap
from typing import NamedTuple
from xml.etree import ElementTree

from towpath.query.layers import Spot, ordered
from towpath.query.plan import Edge, OutputPlan, QueryPlan, StagePlan

_CHARACTER = 6.6
"""Width of a character at a font size of 12, on average of the usual sans-serif fonts, in pixels."""

_LABEL_CHARACTER = 5.5
"""The same at a size of 10, as labels have it."""

_LINE, _PADDING = 17, 10
"""Height of a line of text, and space around a node's text, in pixels."""

_BETWEEN_LAYERS, _BETWEEN_NODES, _MARGIN = 60, 28, 20
"""Space for arrows beside what is written at them, between nodes of a layer, and around the picture, in pixels."""

_WRAP = 34
"""Characters of a line in a node."""

_STYLE = """
text { font: 12px sans-serif; fill: #1f2933 }
.title { font-weight: bold }
.label { font-size: 10px; fill: #52606d; text-anchor: middle }
.stage { fill: #e6f0fa; stroke: #2f6f9f }
.topic { fill: #f5f1e6; stroke: #a08a4f }
.edge { fill: none; stroke: #52606d }
.side { stroke-dasharray: 5 4 }
"""


class _Node(NamedTuple):
    """A box or pill: what is written in it, and what it is."""

    kind: str
    lines: Sequence[str]

    @property
    def width(self) -> float:
        return 2 * _PADDING + _CHARACTER * max(map(len, self.lines))

    @property
    def height(self) -> float:
        return 2 * _PADDING + _LINE * len(self.lines)


class _Arrow(NamedTuple):
    """From a node to another, by their names; ``side``: only rows that a step sends there."""

    begin: str
    end: str
    label: str = ""
    side: bool = False


class _Place(NamedTuple):
    """Where a node or bend is, in pixels."""

    x: float
    y: float
    width: float
    height: float


def render_svg(plan: QueryPlan) -> str:
    """The plan as an SVG picture."""
    nodes, arrows = _graph(plan)
    rows, ways = ordered(list(nodes), [(arrow.begin, arrow.end) for arrow in arrows])
    between = _BETWEEN_LAYERS + _LABEL_CHARACTER * max(len(arrow.label) for arrow in arrows)
    places, width, height = _places(rows, nodes, between)
    title = f"{plan.app}: {plan.description}" if plan.description else plan.app
    size = {"width": f"{width:.0f}", "height": f"{height:.0f}", "viewBox": f"0 0 {width:.0f} {height:.0f}"}
    root = ElementTree.Element("svg", {"xmlns": "http://www.w3.org/2000/svg", "role": "img", **size})
    ElementTree.SubElement(root, "title").text = title
    ElementTree.SubElement(root, "style").text = _STYLE
    _tip(root)
    for arrow, way in zip(arrows, ways, strict=True):
        _draw_arrow(root, arrow, [places[spot] for spot in way])
    for name, node in nodes.items():
        _draw_node(root, node, places[name])
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode")


def _graph(plan: QueryPlan) -> tuple[dict[str, _Node], list[_Arrow]]:
    """Nodes by name, in topological order, and arrows between them."""
    written = {output.topic for stage in plan.stages for output in stage.outputs}
    outside = [source.topic for stage in plan.stages for source in stage.inputs if source.topic not in written]
    nodes = {f"topic {topic}": _Node("topic", [topic]) for topic in outside}
    nodes |= {f"stage {stage.name}": _Node("stage", _lines(stage)) for stage in plan.stages}
    arrows = [
        _Arrow(f"topic {source.topic}", f"stage {stage.name}")
        for stage in plan.stages
        for source in stage.inputs
        if source.topic in outside
    ]
    for stage in plan.stages:
        for output in stage.outputs:
            readers = [f"stage {each.name}" for each in plan.stages for at in each.inputs if at.topic == output.topic]
            if not readers:
                readers = [f"topic {output.topic}"]
                nodes[readers[0]] = _Node("topic", [output.topic])
            arrows += [_Arrow(f"stage {stage.name}", reader, _label(output), not output.default) for reader in readers]
    return nodes, arrows


def _lines(stage: StagePlan) -> list[str]:
    steps = " → ".join(operator.name for operator in stage.operators) or "pass through"
    lines = [f"{stage.name} ×{stage.parallelism}", *wrap(steps, _WRAP)]
    if stage.stateful:
        lines += wrap(f"keeps {', '.join(table.name for table in stage.tables)} ({stage.backend})", _WRAP)
    return lines


def _label(output: OutputPlan) -> str:
    routing = f"hash by {', '.join(output.key)}" if output.edge is Edge.HASH else output.edge.value
    return f"{routing}, {output.partitions}" if output.partitions else routing


def _places(
    rows: Sequence[Sequence[Spot]], nodes: dict[str, _Node], between: float
) -> tuple[dict[Spot, _Place], float, float]:
    """Where everything is, layers ``between`` apart and in the middle of the height, and the picture's size."""
    heights = [sum(_height(spot, nodes) + _BETWEEN_NODES for spot in row) - _BETWEEN_NODES for row in rows]
    tallest = max(heights, default=0.0)
    found: dict[Spot, _Place] = {}
    x = float(_MARGIN)
    for row, height in zip(rows, heights, strict=True):
        width = max(_width(spot, nodes) for spot in row)
        y = _MARGIN + (tallest - height) / 2
        for spot in row:
            wide = _width(spot, nodes) or width  # a bend leads past the whole layer
            found[spot] = _Place(x + (width - wide) / 2, y, wide, _height(spot, nodes))
            y += _height(spot, nodes) + _BETWEEN_NODES
        x += width + between
    return found, x - between + _MARGIN, tallest + 2 * _MARGIN


def _width(spot: Spot, nodes: dict[str, _Node]) -> float:
    return nodes[spot].width if isinstance(spot, str) else 0.0


def _height(spot: Spot, nodes: dict[str, _Node]) -> float:
    return nodes[spot].height if isinstance(spot, str) else 0.0


def _tip(root: ElementTree.Element) -> None:
    """The tip of arrows."""
    definitions = ElementTree.SubElement(root, "defs")
    size = {"markerWidth": "8", "markerHeight": "8", "refX": "7", "refY": "4", "orient": "auto"}
    marker = ElementTree.SubElement(definitions, "marker", {"id": "tip", **size})
    ElementTree.SubElement(marker, "path", {"d": "M0,0 L8,4 L0,8 z", "fill": "#52606d"})


def _draw_node(root: ElementTree.Element, node: _Node, place: _Place) -> None:
    shape = {
        "class": node.kind,
        "x": f"{place.x:.1f}",
        "y": f"{place.y:.1f}",
        "width": f"{place.width:.1f}",
        "height": f"{place.height:.1f}",
        "rx": "4" if node.kind == "stage" else f"{place.height / 2:.1f}",
    }
    ElementTree.SubElement(root, "rect", shape)
    for number, line in enumerate(node.lines):
        at = {"x": f"{place.x + _PADDING:.1f}", "y": f"{place.y + _PADDING + _LINE * (number + 0.75):.1f}"}
        if number == 0 and node.kind == "stage":
            at["class"] = "title"
        ElementTree.SubElement(root, "text", at).text = line


def _draw_arrow(root: ElementTree.Element, arrow: _Arrow, places: Sequence[_Place]) -> None:
    """A curve through the bends, and what is written in the middle of its first part."""
    parts: list[str] = []
    for left, right in pairwise(places):
        begin, end = (left.x + left.width, left.y + left.height / 2), (right.x, right.y + right.height / 2)
        middle = (begin[0] + end[0]) / 2
        parts.append(f"M{begin[0]:.1f},{begin[1]:.1f}" if not parts else f"L{begin[0]:.1f},{begin[1]:.1f}")
        parts.append(f"C{middle:.1f},{begin[1]:.1f} {middle:.1f},{end[1]:.1f} {end[0]:.1f},{end[1]:.1f}")
    kind = "edge side" if arrow.side else "edge"
    ElementTree.SubElement(root, "path", {"class": kind, "d": " ".join(parts), "marker-end": "url(#tip)"})
    if arrow.label:
        left, right = places[0], places[1]
        x = (left.x + left.width + right.x) / 2
        y = (left.y + left.height / 2 + right.y + right.height / 2) / 2 - 5
        ElementTree.SubElement(root, "text", {"class": "label", "x": f"{x:.1f}", "y": f"{y:.1f}"}).text = arrow.label
