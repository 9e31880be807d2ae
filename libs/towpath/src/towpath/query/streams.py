"""Streams: the rows at a place of the query, and what can be done with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import polars as pl

from towpath.operators.json_encode import sink_schema
from towpath.operators.process import RowFunction
from towpath.operators.rows import BatchFunction
from towpath.query.check import check_key, check_names, check_row_wise, visible
from towpath.query.errors import QueryError
from towpath.query.graph import Sink, StageOptions
from towpath.query.names import check_topic
from towpath.query.place import Place, stage_options
from towpath.query.plan import Edge
from towpath.query.steps import (
    CountStep,
    FilterStep,
    MapBatchesStep,
    ProcessStep,
    RequireKeyStep,
    SelectStep,
    Step,
    WithColumnsStep,
    output_name,
)

Columns = str | Sequence[str]
"""One column or several."""


class Stream:
    """Rows at a place of the query. Every method gives a new stream; one stream may feed several edges and sinks."""

    def __init__(self, place: Place) -> None:
        """Made by :class:`~towpath.query.builder.Query`."""
        self._place = place

    @property
    def schema(self) -> dict[str, Any]:
        """Column → Polars type, without reserved columns."""
        return {name: self._place.schema[name] for name in visible(self._place.schema)}

    def filter(self, *predicates: pl.Expr) -> Stream:
        """Keep the rows for which all predicates are true; null counts as false."""
        return self._row_wise(FilterStep(predicates), predicates)

    def with_columns(self, *expressions: pl.Expr, **named: pl.Expr) -> Stream:
        """Add or replace columns."""
        chosen = _as_expressions(expressions, named)
        check_names(map(output_name, chosen), self._place.label("with_columns"))
        return self._row_wise(WithColumnsStep(chosen), chosen)

    def select(self, *expressions: str | pl.Expr, **named: pl.Expr) -> Stream:
        """Replace the columns."""
        chosen = _as_expressions(expressions, named)
        check_names(map(output_name, chosen), self._place.label("select"))
        return self._row_wise(SelectStep(chosen), chosen)

    def map_batches(self, function: BatchFunction) -> Stream:
        """Apply a function ``DataFrame → DataFrame`` to each batch, whatever its size.

        The function must judge each row by itself and keep the columns that begin with ``__``. It is called once with
        an empty frame to learn its columns.
        """
        step = MapBatchesStep(function, f"map_batches({_name_of(function)})")
        result = self._place.apply(step)
        check_names((name for name in result.schema if name not in self._place.schema), self._place.label(step.name))
        return Stream(result)

    def key_by(self, *columns: str) -> KeyedStream:
        """Bring rows with equal keys together, for the keyed steps.

        Rows whose key is null go to the dead-letter topic.
        """
        check_key(columns, self._place.schema, self._place.label("key_by"))
        return KeyedStream(self._place.apply(RequireKeyStep(columns)), columns, None, self._place.graph.partitions)

    def forward(self) -> EdgeTo:
        """An edge that keeps each row's partition; say to which stage by ``.stage(…)``."""
        return EdgeTo(self._place, Edge.FORWARD, self._place.partitions)

    def random(self, *, partitions: int | None = None) -> EdgeTo:
        """An edge that spreads rows round robin; say to which stage by ``.stage(…)``."""
        return EdgeTo(self._place, Edge.RANDOM, partitions or self._place.graph.partitions)

    def stage(self, name: str, *, parallelism: int = 1, backend: str = "rocksdb") -> Stream:
        """Begin a new stage behind a forward edge."""
        return self.forward().stage(name, parallelism=parallelism, backend=backend)

    def sink(self, topic: str, *, key: Columns = (), partitions: int | None = None) -> None:
        """Write each row to a topic as a JSON object.

        Args:
            topic: name in Kafka; made if it does not exist.
            key: column(s) whose text is the record's key, which decides the partition; without, rows go round robin.
            partitions: partition count, by default the query's.

        Raises:
            QueryError: a key column can't be one, or a column has the name of a field that the sink adds.
        """
        check_topic(topic)
        keys = column_names(key)
        if keys:
            check_key(keys, self._place.schema, f"sink {topic!r}")
        try:
            sink_schema(self._place.schema)
        except ValueError as error:
            raise QueryError(f"sink {topic!r}: {error}") from error
        graph = self._place.graph
        graph.sinks.append(Sink(self._place.node, topic, keys, partitions or graph.partitions, self._place.schema))

    def _row_wise(self, step: Step, expressions: Sequence[pl.Expr]) -> Stream:
        check_row_wise(expressions, self._place.label(step.name))
        return Stream(self._place.apply(step))


class EdgeTo:
    """An edge that does not lead anywhere yet."""

    def __init__(self, place: Place, edge: Edge, partitions: int | None) -> None:
        """Made by :meth:`Stream.forward` and :meth:`Stream.random`."""
        self._place = place
        self._edge = edge
        self._partitions = partitions

    def stage(self, name: str, *, parallelism: int = 1, backend: str = "rocksdb") -> Stream:
        """Begin the stage at the other end.

        Args:
            name: unique in the query.
            parallelism: replicas at the start; more than there are partitions have nothing to do.
            backend: where keyed steps in it keep their state, ``rocksdb`` or ``memory``.
        """
        options = stage_options(name, parallelism, backend)
        return Stream(self._place.cut(self._edge, (), options, self._partitions))


class KeyedStream:
    """Rows of one key belong together: what keyed steps work on."""

    def __init__(self, place: Place, keys: tuple[str, ...], options: StageOptions | None, partitions: int) -> None:
        """Made by :meth:`Stream.key_by`. Without ``options`` the first keyed step names the stage."""
        self._place = place
        self._keys = keys
        self._options = options
        self._partitions = partitions

    def stage(
        self, name: str, *, parallelism: int = 1, backend: str = "rocksdb", partitions: int | None = None
    ) -> KeyedStream:
        """Begin a stage behind a hash edge.

        Args:
            name: unique in the query.
            parallelism: replicas at the start.
            backend: where the state is, ``rocksdb`` or ``memory``.
            partitions: of the edge, and so tasks of the stage; by default the query's.
        """
        options = stage_options(name, parallelism, backend)
        return KeyedStream(self._place, self._keys, options, partitions or self._partitions)

    def count(self, into: str = "count", *, emit: Literal["batch", "each"] = "batch") -> Stream:
        """Count the rows of each key.

        Columns that come out: the key and ``into`` (Int64). The count is the state table ``into``.

        Args:
            into: column of the count.
            emit: ``batch`` gives one row per distinct key and batch (how many rows depends on load, the last of a key
                does not), ``each`` one row per row.
        """
        if emit not in ("batch", "each"):
            raise QueryError(f"count(emit={emit!r}): emit is 'batch' or 'each'")
        if into in self._keys:
            raise QueryError(f"count(into={into!r}): the key has that name; choose another")
        check_names([into], "count")
        return Stream(self._enter("count").apply(CountStep(self._keys, into, emit == "each")))

    def process(
        self, function: RowFunction, *, schema: Mapping[str, Any], state: Any = int, name: str | None = None
    ) -> Stream:
        """Run a function on each row, with a value of state for the row's key.

        Args:
            function: ``(row, state) → rows``, each a dict; see :class:`~towpath.operators.process.KeyState`.
            schema: columns that come out → Polars type.
            state: type of the value: whatever JSON can hold with a type (int, str, a msgspec.Struct, list[int] …).
            name: of the step, its table, and its stage if that has no name yet; by default the function's.
        """
        label = name or _name_of(function)
        check_names(schema, label)
        return Stream(self._enter(label).apply(ProcessStep(self._keys, function, dict(schema), state, label)))

    def _enter(self, default_stage: str) -> Place:
        """The stage of the keyed step: this one if rows are where they belong, else a new one."""
        if self._options is None and self._place.placed_by == self._keys:
            return self._place
        options = self._options or stage_options(default_stage, 1, "rocksdb")
        return self._place.cut(Edge.HASH, self._keys, options, self._partitions)


def column_names(columns: Columns) -> tuple[str, ...]:
    """One name or several, as a tuple."""
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _as_expressions(given: Sequence[str | pl.Expr], named: Mapping[str, pl.Expr]) -> tuple[pl.Expr, ...]:
    plain = [pl.col(item) if isinstance(item, str) else item for item in given]
    return (*plain, *(expression.alias(name) for name, expression in named.items()))


def _name_of(function: object) -> str:
    return str(getattr(function, "__name__", type(function).__name__))
