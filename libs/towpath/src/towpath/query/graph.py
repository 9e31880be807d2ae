"""The graph that the builder writes and the planner cuts into stages.

::

    Source ──▶ Step ──▶ … ──▶ Cut ──▶ Step ─┬▶ Step ──▶ Sink
    (begins a stage)          (begins one)  └▶ Step ──▶ Cut ──▶ …
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from towpath.formats.declared import Declared
from towpath.query.plan import Edge, EventTime
from towpath.query.steps import Step

BACKENDS = ("rocksdb", "memory")


@dataclass(frozen=True)
class StageOptions:
    """How a stage is deployed."""

    name: str
    parallelism: int = 1
    backend: str = "rocksdb"


@dataclass(frozen=True, eq=False)
class Source:
    """A topic that exists; begins a stage."""

    topic: str
    schema: Mapping[str, Any]
    options: StageOptions
    emit_time: str | None
    key_column: str | None
    timestamp_column: str | None = None
    event_time: EventTime | None = None
    declared: Declared | None = None


@dataclass(frozen=True, eq=False)
class Apply:
    """A step on what comes from ``parent``; ``schema`` is what comes out."""

    parent: Node
    step: Step
    schema: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Cut:
    """Edges to a stage, which begins there; ``schema`` is that of each parent."""

    parents: tuple[Node, ...]
    edge: Edge
    keys: tuple[str, ...]
    options: StageOptions
    partitions: int | None
    schema: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Sink:
    """A topic that the query writes."""

    parent: Node
    topic: str
    keys: tuple[str, ...]
    partitions: int | None
    schema: Mapping[str, Any]
    declared: Declared | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)


Node = Source | Apply | Cut
Head = Source | Cut
NodeT = TypeVar("NodeT", Source, Apply, Cut)


@dataclass
class Graph:
    """All nodes in the order written, parents before children; ``partitions`` is the default of its topics."""

    partitions: int
    nodes: list[Node] = field(default_factory=list)
    sinks: list[Sink] = field(default_factory=list)

    def add(self, node: NodeT) -> NodeT:
        """Append a node."""
        self.nodes.append(node)
        return node

    @property
    def heads(self) -> list[Head]:
        """The nodes that begin a stage."""
        return [node for node in self.nodes if isinstance(node, Source | Cut)]

    def consumers(self, node: Node) -> list[Apply | Cut | Sink]:
        """What reads the node's rows."""
        inner = [other for other in self.nodes if not isinstance(other, Source) and _reads(other, node)]
        return [*inner, *(sink for sink in self.sinks if sink.parent is node)]


def _reads(reader: Apply | Cut, node: Node) -> bool:
    return any(parent is node for parent in reader.parents) if isinstance(reader, Cut) else reader.parent is node


def head_of(node: Node) -> Head:
    """Where the node's stage begins."""
    while isinstance(node, Apply):
        node = node.parent
    return node


def sources_of(node: Node) -> list[Source]:
    """The sources whose rows come to a node."""
    match node:
        case Source():
            return [node]
        case Apply():
            return sources_of(node.parent)
        case Cut():
            return list(dict.fromkeys(source for parent in node.parents for source in sources_of(parent)))
