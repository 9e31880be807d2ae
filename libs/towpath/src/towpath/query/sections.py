"""Stages before planning: the graph cut at its edges, and the checks on names and topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from statemgr import layout
from towpath.query.check import Schema
from towpath.query.errors import GraphError
from towpath.query.graph import Apply, Cut, Graph, Head, Node, Sink, Source, head_of
from towpath.query.names import check_topic

Exit = Cut | Sink


@dataclass(frozen=True)
class Section:
    """A stage before planning: where it begins, its steps, and the edges and sinks at its end."""

    head: Head
    steps: tuple[Apply, ...]
    exits: tuple[Exit, ...]

    @property
    def name(self) -> str:
        """Name of the stage."""
        return self.head.options.name

    @property
    def schema(self) -> Schema:
        """Columns at its end."""
        return (self.steps[-1] if self.steps else self.head).schema


def cut_graph(graph: Graph, app: str) -> list[Section]:
    """The stages in topological order, checked.

    Raises:
        GraphError: no source or sink, a branch without a sink, a branch inside a stage, a name or topic used twice, a
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


def output_topic(exit_: Exit, app: str) -> str:
    """Topic that the edge or sink writes."""
    if isinstance(exit_, Sink):
        return exit_.topic
    return layout.edge_topic(app, head_of(exit_.parent).options.name, exit_.options.name)


def _section(graph: Graph, head: Head) -> Section:
    node: Node = head
    steps: list[Apply] = []
    while True:
        consumers = graph.consumers(node)
        exits = tuple(consumer for consumer in consumers if not isinstance(consumer, Apply))
        if len(exits) == len(consumers):
            return Section(head, tuple(steps), exits)
        if len(consumers) > 1:
            raise GraphError(
                f"stage {head.options.name!r} branches after {steps[-1].step.name if steps else 'its input'!r} into "
                f"{len(consumers)} ways: begin each of them with an edge to a stage of its own, "
                "for example .forward().stage('…')"
            )
        (node,) = (consumer for consumer in consumers if isinstance(consumer, Apply))
        steps.append(node)


def _check_section(section: Section) -> None:
    name = section.name
    if not section.exits:
        raise GraphError(f"the rows of stage {name!r} go nowhere: end it with .sink('topic') or an edge")
    tables = [table.name for apply in section.steps for table in apply.step.tables]
    _check_unique(tables, f"stage {name!r} has two tables named {{}}: give one step another name")
    if len(tables) >= layout.MAX_TABLES:
        raise GraphError(f"stage {name!r} has {len(tables)} tables; fewer than {layout.MAX_TABLES} fit")


def _check_topics(sections: list[Section], app: str) -> None:
    written = [output_topic(exit_, app) for section in sections for exit_ in section.exits]
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
