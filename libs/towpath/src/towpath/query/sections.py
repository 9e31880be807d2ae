"""Stages before planning: the graph cut at its edges, and the checks on names and topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from statemgr import layout
from towpath.query.check import Schema
from towpath.query.errors import GraphError
from towpath.query.graph import Apply, Cut, Graph, Head, Node, Sink, Source, head_of
from towpath.query.names import check_topic
from towpath.query.side_outputs import SideOutput, side_outputs

Exit = Cut | Sink


@dataclass(frozen=True)
class Way:
    """From where a stage branches, or ends, to one of its edges or sinks: steps that only these rows go through."""

    steps: tuple[Apply, ...]
    exit: Exit


@dataclass(frozen=True)
class Section:
    """A stage before planning: where it begins, the steps of all rows, and the ways on from there."""

    head: Head
    steps: tuple[Apply, ...]
    ways: tuple[Way, ...]

    @property
    def name(self) -> str:
        """Name of the stage."""
        return self.head.options.name

    @property
    def schema(self) -> Schema:
        """Columns where the ways begin."""
        return (self.steps[-1] if self.steps else self.head).schema

    @property
    def exits(self) -> tuple[Exit, ...]:
        """Edges and sinks, each once, even if several ways lead to it."""
        return tuple(dict.fromkeys(way.exit for way in self.ways))

    @property
    def side_outputs(self) -> tuple[SideOutput, ...]:
        """Topics that single steps write."""
        return tuple(side for apply in self.steps for side in side_outputs(apply.step))

    def ways_to(self, exit_: Exit) -> tuple[Way, ...]:
        """The ways that lead to an edge or sink."""
        return tuple(way for way in self.ways if way.exit is exit_)


def cut_graph(graph: Graph, app: str) -> list[Section]:
    """The stages in topological order, checked.

    Raises:
        GraphError: no source or sink, a branch without a sink, state in a branch, a name or topic used twice, a
            topic that is read and written, too many tables.
    """
    if not graph.nodes:
        raise GraphError("the query reads nothing: begin with query.source(…)")
    if not graph.sinks:
        raise GraphError("the query writes nothing: end it with .sink('topic')")
    sections = [_section(graph, head) for head in graph.heads]
    for section in sections:
        _check_section(section)
    _check_unique([section.name for section in sections], "two stages are named {}: give one another name")
    _check_topics(sections, app)
    return sections


def output_topic(exit_: Exit, stage: str, app: str) -> str:
    """Topic that a stage writes for an edge or sink."""
    return exit_.topic if isinstance(exit_, Sink) else layout.edge_topic(app, stage, exit_.options.name)


def input_topics(cut: Cut, app: str) -> list[str]:
    """Topics that the stage behind these edges reads."""
    return list(dict.fromkeys(output_topic(cut, head_of(parent).options.name, app) for parent in cut.parents))


def _section(graph: Graph, head: Head) -> Section:
    node: Node = head
    steps: list[Apply] = []
    while True:
        match graph.consumers(node):
            case [Apply() as only]:
                node = only
                steps.append(only)
            case _:
                return Section(head, tuple(steps), tuple(_ways(graph, node, (), head)))


def _ways(graph: Graph, node: Node, steps: tuple[Apply, ...], head: Head) -> Iterator[Way]:
    consumers = graph.consumers(node)
    if not consumers and steps:
        raise GraphError(
            f"stage {head.options.name!r} branches, and the rows behind {steps[-1].step.name!r} go nowhere: end each "
            "branch with .sink('topic') or an edge"
        )
    for consumer in consumers:
        if not isinstance(consumer, Apply):
            yield Way(steps, consumer)
        elif consumer.step.tables:
            raise GraphError(
                f"stage {head.options.name!r} branches before {consumer.step.name!r}, which keeps state: begin that "
                "branch with an edge to a stage of its own, for example .forward().stage('…')"
            )
        else:
            yield from _ways(graph, consumer, (*steps, consumer), head)


def _check_section(section: Section) -> None:
    name = section.name
    if not section.ways:
        raise GraphError(f"the rows of stage {name!r} go nowhere: end it with .sink('topic') or an edge")
    tables = [table.name for apply in section.steps for table in apply.step.tables]
    _check_unique(tables, f"stage {name!r} has two tables named {{}}: give one step another name")
    if len(tables) >= layout.MAX_TABLES:
        raise GraphError(f"stage {name!r} has {len(tables)} tables; fewer than {layout.MAX_TABLES} fit")


def _check_topics(sections: list[Section], app: str) -> None:
    written = [output_topic(exit_, section.name, app) for section in sections for exit_ in section.exits]
    written += [side.topic for section in sections for side in section.side_outputs]
    written += [layout.changelog_topic(app, section.name) for section in sections] + [layout.dead_letter_topic(app)]
    _check_unique(written, "two parts of the query write to topic {}: give one another name")
    read = {section.head.topic for section in sections if isinstance(section.head, Source)}
    for topic in written:
        check_topic(topic)
        if topic in read:
            raise GraphError(f"the query reads topic {topic!r} and writes to it, which never ends: name another sink")


def _check_unique(names: Iterable[str], message: str) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise GraphError(message.format(repr(name)))
