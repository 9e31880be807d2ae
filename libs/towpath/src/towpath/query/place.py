"""A place in the graph under construction: where rows are, and which columns decide what task they belong to."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from towpath.query.check import resulting_schema, unknown_column, visible
from towpath.query.errors import ColumnTypeError, GraphError, QueryError, nearest
from towpath.query.graph import BACKENDS, Apply, Cut, Graph, Node, StageOptions, head_of, sources_of
from towpath.query.names import check_stage
from towpath.query.plan import Edge
from towpath.query.steps import Step


@dataclass(frozen=True)
class Place:
    """Rows of one node.

    Attributes:
        graph: what is being built.
        node: where the rows come from.
        placed_by: columns by whose text rows are placed on tasks; empty if unknown.
    """

    graph: Graph
    node: Node
    placed_by: tuple[str, ...] = ()

    @property
    def schema(self) -> Mapping[str, Any]:
        """Column → Polars type, reserved columns included."""
        return self.node.schema

    @property
    def stage(self) -> str:
        """Name of the stage."""
        return head_of(self.node).options.name

    @property
    def partitions(self) -> int | None:
        """Partitions of the stage's input; None for a source."""
        head = head_of(self.node)
        return head.partitions if isinstance(head, Cut) else None

    def label(self, step: str) -> str:
        """What messages call a step here."""
        return f"{step} in stage {self.stage!r}"

    def apply(self, step: Step) -> Place:
        """Add a step, checked against the columns here.

        Raises:
            QueryError: it does not fit; see :func:`towpath.query.check.resulting_schema`.
        """
        schema = resulting_schema(step.make(), self.schema, self.label(step.name))
        node = self.graph.add(Apply(self.node, step, schema))
        return Place(self.graph, node, self.placed_by if step.keeps(self.placed_by) else ())


def cut(
    places: Sequence[Place], edge: Edge, keys: Collection[str], options: StageOptions, partitions: int | None
) -> Place:
    """Begin a stage at the other end of edges.

    Raises:
        GraphError: they belong to different queries.
        QueryError: their columns differ.
    """
    first = places[0]
    schema = dict(first.schema)
    for place in places[1:]:
        if place.graph is not first.graph:
            raise GraphError(f"stage {options.name!r} would read streams of two queries: a stream belongs to one query")
        if {name: place.schema[name] for name in visible(place.schema)} != {
            name: first.schema[name] for name in visible(first.schema)
        }:
            raise QueryError(
                f"stage {options.name!r} would read rows with different columns: {_listed(first.schema)} of stage "
                f"{first.stage!r}, {_listed(place.schema)} of stage {place.stage!r}; select the same ones in each"
            )
        schema |= place.schema
    node = first.graph.add(Cut(tuple(place.node for place in places), edge, tuple(keys), options, partitions, schema))
    alike = {place.placed_by for place in places}
    kept = alike.pop() if len(alike) == 1 else ()
    return Place(first.graph, node, kept if edge is Edge.FORWARD else tuple(keys))


def require_timed(place: Place, label: str) -> None:
    """Refuse rows with which no watermarks come.

    Raises:
        QueryError: a source that they come from tells no event time.
    """
    untimed = [source.topic for source in sources_of(place.node) if source.event_time is None]
    if untimed:
        raise QueryError(f"{label}: source {untimed[0]!r} tells no event time: write query.source(…, event_time='…')")


def require_event_time(place: Place, column: str, label: str) -> None:
    """Refuse rows that have no event time in this column.

    Raises:
        QueryError: a source that they come from tells none.
        UnknownColumnError, ColumnTypeError: the column is none of event time.
    """
    require_timed(place, label)
    if column not in place.schema:
        raise unknown_column(column, place.schema, label)
    if place.schema[column] != pl.Int64:
        raise ColumnTypeError(
            f"{label}: column {column!r} is {place.schema[column]}, and event time is Int64, in ms since the epoch"
        )


def _listed(schema: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {schema[name]}" for name in visible(schema))


def stage_options(name: str, parallelism: int, backend: str) -> StageOptions:
    """Checked options of a stage.

    Raises:
        GraphError: the name, the number of replicas or the backend is no such thing.
    """
    check_stage(name)
    if parallelism < 1:
        raise GraphError(f"stage {name!r}: parallelism={parallelism}, but it takes at least one replica")
    if backend not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise GraphError(f"stage {name!r}: unknown backend {backend!r}{nearest(backend, BACKENDS)} (known: {known})")
    return StageOptions(name, parallelism, backend)
