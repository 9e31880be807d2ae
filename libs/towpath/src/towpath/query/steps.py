"""The steps a query is written in: each knows its operator, its tables, and which columns it looks at."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import polars as pl

from statemgr.state import json_codec
from towpath.operators.combine import Combine
from towpath.operators.count import KeyedCount
from towpath.operators.keyed_rows import KeyedRows, Reduction
from towpath.operators.late import COUNTED, LateRows
from towpath.operators.lookup import Lookup
from towpath.operators.process import KeyedProcess, RowFunction
from towpath.operators.rows import BatchFunction, Explode, Filter, Keep, MapBatches, RequireKey, Select, WithColumns
from towpath.operators.sessions import Sessions, SessionWindows
from towpath.operators.windowed_rows import WindowedRows
from towpath.operators.windows import WINDOW_END, AssignWindows, RequireEventTime, Until, Window
from towpath.query.check import Schema, visible
from towpath.query.expressions import Expression
from towpath.query.plan import Operator, OperatorPlan
from towpath.query.side_outputs import SideOutput


@dataclass(frozen=True)
class TableUse:
    """A state table that a step needs, before it has an id."""

    name: str
    codec: Any


class Step(Protocol):
    """One step of a stage."""

    @property
    def name(self) -> str:
        """What plans and messages call it."""
        ...

    @property
    def tables(self) -> tuple[TableUse, ...]:
        """State it keeps; none if stateless."""
        ...

    def make(self) -> Operator:
        """A new operator, for one replica."""
        ...

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:
        """Columns of its input that it needs so that the ``wanted`` columns come out."""
        ...

    def keeps(self, columns: Collection[str]) -> bool:
        """Whether rows still have the same values in these columns, so that they are still where they belong."""
        ...


@dataclass(frozen=True)
class FilterStep:
    """Keep some rows; ``written``: the predicates as they were written, for other engines."""

    predicates: tuple[pl.Expr, ...]
    name: str = "filter"
    tables: tuple[TableUse, ...] = ()
    written: tuple[Expression, ...] = ()

    def make(self) -> Operator:
        """A new operator."""
        return Filter(self.predicates)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:
        """What is wanted, and what the predicates read."""
        return set(wanted) | read_by(self.predicates, schema)

    def keeps(self, columns: Collection[str]) -> bool:  # noqa: ARG002
        """It changes no column."""
        return True


@dataclass(frozen=True)
class WithColumnsStep:
    """Add or replace columns; ``written`` as for :class:`FilterStep`."""

    expressions: tuple[pl.Expr, ...]
    name: str = "with_columns"
    tables: tuple[TableUse, ...] = ()
    written: tuple[Expression, ...] = ()

    def make(self) -> Operator:
        """A new operator."""
        return WithColumns(self.expressions)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:
        """What is wanted and comes from before, and what the expressions read."""
        return (set(wanted) & set(visible(schema))) | read_by(self.expressions, schema)

    def keeps(self, columns: Collection[str]) -> bool:
        """Unless it replaces one of them."""
        return all(output_name(expression) not in columns and _single(expression) for expression in self.expressions)


@dataclass(frozen=True)
class SelectStep:
    """Replace the columns; ``written`` as for :class:`FilterStep`."""

    expressions: tuple[pl.Expr, ...]
    name: str = "select"
    tables: tuple[TableUse, ...] = ()
    written: tuple[Expression, ...] = ()

    def make(self) -> Operator:
        """A new operator."""
        return Select(self.expressions)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """What the expressions read."""
        return read_by(self.expressions, schema)

    def keeps(self, columns: Collection[str]) -> bool:
        """If it takes them over as they are."""
        taken = {output_name(expression) for expression in self.expressions if expression.meta.is_column()}
        return taken.issuperset(columns)


@dataclass(frozen=True)
class SideStep(SelectStep):
    """Rows of one side of an enrichment, in the columns that both sides have; ``of_table``: it is the table's side."""

    of_table: bool = False


@dataclass(frozen=True)
class MapBatchesStep:
    """A user function on each batch."""

    function: BatchFunction
    name: str
    tables: tuple[TableUse, ...] = ()

    def make(self) -> Operator:
        """A new operator."""
        return MapBatches(self.function)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """Everything: what a function reads can't be known."""
        return set(visible(schema))

    def keeps(self, columns: Collection[str]) -> bool:  # noqa: ARG002
        """It can't be known."""
        return False


@dataclass(frozen=True)
class ExplodeStep:
    """A row for each element of a list."""

    column: str
    name: str = "explode"
    tables: tuple[TableUse, ...] = ()

    def make(self) -> Operator:
        """A new operator."""
        return Explode(self.column)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """What is wanted, and the list."""
        return set(wanted) | {self.column}

    def keeps(self, columns: Collection[str]) -> bool:
        """All columns but the list."""
        return self.column not in columns


@dataclass(frozen=True)
class RequireKeyStep:
    """Rows without a key go to the dead-letter topic."""

    keys: tuple[str, ...]
    name: str = "require_key"
    tables: tuple[TableUse, ...] = ()

    def make(self) -> Operator:
        """A new operator."""
        return RequireKey(self.keys)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """What is wanted, and the key."""
        return set(wanted) | set(self.keys)

    def keeps(self, columns: Collection[str]) -> bool:  # noqa: ARG002
        """It changes no column."""
        return True


@dataclass(frozen=True)
class KeepStep:
    """Drop what nobody needs; put in by the planner."""

    columns: tuple[str, ...]
    name: str = "keep"
    tables: tuple[TableUse, ...] = ()

    def make(self) -> Operator:
        """A new operator."""
        return Keep(self.columns)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """What it keeps."""
        return set(self.columns)

    def keeps(self, columns: Collection[str]) -> bool:
        """If it keeps them."""
        return set(self.columns).issuperset(columns)


@dataclass(frozen=True)
class CountStep:
    """Rows per key."""

    keys: tuple[str, ...]
    into: str
    each: bool
    name: str = "count"
    tables: tuple[TableUse, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", (TableUse(self.into, json_codec(int)),))

    def make(self) -> Operator:
        """A new operator."""
        return KeyedCount(self.keys, self.into, self.into, each=self.each)

    def combiner(self) -> OperatorPlan | None:
        """What may merge rows before the edge; None: each row is to be seen."""
        return None if self.each else OperatorPlan("combine", lambda: Combine(self.keys))

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """The key."""
        return set(self.keys)

    def keeps(self, columns: Collection[str]) -> bool:
        """If they are part of the key."""
        return set(self.keys).issuperset(columns)


@dataclass(frozen=True, eq=False)
class LookupStep:
    """Columns of a table that is part of the query."""

    table: pl.DataFrame
    on: tuple[str, ...]
    inner: bool
    name: str = "lookup"
    tables: tuple[TableUse, ...] = ()

    def make(self) -> Operator:
        """A new operator."""
        return Lookup(self.table, self.on, inner=self.inner)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:
        """What is wanted and comes from before, and the columns that are looked up."""
        return (set(wanted) & set(visible(schema))) | set(self.on)

    def keeps(self, columns: Collection[str]) -> bool:  # noqa: ARG002
        """It only adds columns."""
        return True


@dataclass(frozen=True)
class KeyedRowsStep:
    """A few rows kept per key; ``reads``: columns that they are made of."""

    keys: tuple[str, ...]
    reduction: Reduction
    reads: frozenset[str]
    name: str
    tables: tuple[TableUse, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", (TableUse(self.name, json_codec(list[list[Any]])),))

    def make(self) -> KeyedRows:
        """A new operator."""
        return KeyedRows(self.keys, self.reduction, self.name)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """The key, and what is kept."""
        return set(self.keys) | self.reads

    def keeps(self, columns: Collection[str]) -> bool:
        """If they are part of the key."""
        return set(self.keys).issuperset(columns)


@dataclass(frozen=True)
class RequireEventTimeStep:
    """Rows without event time go to the dead-letter topic."""

    on: str
    name: str = "require_event_time"
    tables: tuple[TableUse, ...] = ()

    def make(self) -> Operator:
        """A new operator."""
        return RequireEventTime(self.on)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """What is wanted, and the event time."""
        return set(wanted) | {self.on}

    def keeps(self, columns: Collection[str]) -> bool:  # noqa: ARG002
        """It changes no column."""
        return True


@dataclass(frozen=True)
class AssignWindowsStep:
    """Windows of each row."""

    window: Window | Until
    on: str
    name: str = "window"
    tables: tuple[TableUse, ...] = ()

    def make(self) -> Operator:
        """A new operator."""
        return AssignWindows(self.window, self.on)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """What is wanted and comes from before, and the event time."""
        read = {self.window.column} if isinstance(self.window, Until) else set()
        return set(wanted) - {WINDOW_END} | {self.on} | read

    def keeps(self, columns: Collection[str]) -> bool:  # noqa: ARG002
        """It only adds a column."""
        return True


@dataclass(frozen=True)
class WindowedRowsStep:
    """A few rows kept per key and window.

    Attributes:
        keys: key column → Polars type.
        window: of event time.
        reduction: what is kept.
        columns: kept columns → Polars type.
        reads: columns that they are made of.
        late: where late rows go; None: they are only counted.
        updates: whether rows go out when they change, and not when a window closes.
    """

    keys: Schema
    window: Window | Until
    reduction: Reduction
    columns: Schema
    reads: frozenset[str]
    name: str
    tables: tuple[TableUse, ...] = field(init=False)
    late: SideOutput | None = None
    updates: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", (TableUse(self.name, json_codec(list[list[Any]])),))

    @property
    def side_outputs(self) -> tuple[SideOutput, ...]:
        """See :class:`towpath.query.side_outputs.Siding`."""
        return () if self.late is None else (self.late,)

    def make(self) -> Operator:
        """A new operator."""
        return WindowedRows(
            self.keys,
            self.window,
            self.reduction,
            self.columns,
            self.name,
            late=_late_rows(self.late),
            updates=self.updates,
        )

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """The key and the window, and what is kept; everything where late rows are written."""
        return set(visible(schema)) if self.late is not None else {*self.keys, WINDOW_END} | self.reads

    def keeps(self, columns: Collection[str]) -> bool:
        """If they are part of the key."""
        return set(self.keys).issuperset(columns)


@dataclass(frozen=True)
class SessionsStep:
    """Sessions kept per key.

    Attributes:
        keys: key column → Polars type.
        sessions: what is kept.
        columns: kept columns → Polars type.
        reads: columns that they are made of.
        late: where late rows go; None: they are only counted.
    """

    keys: Schema
    sessions: Sessions
    columns: Schema
    reads: frozenset[str]
    name: str
    tables: tuple[TableUse, ...] = field(init=False)
    late: SideOutput | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", (TableUse(self.name, json_codec(list[list[Any]])),))

    @property
    def side_outputs(self) -> tuple[SideOutput, ...]:
        """See :class:`towpath.query.side_outputs.Siding`."""
        return () if self.late is None else (self.late,)

    def make(self) -> Operator:
        """A new operator."""
        return SessionWindows(self.keys, self.sessions, self.columns, self.name, _late_rows(self.late))

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """The key, and what is kept; everything where late rows are written."""
        return set(visible(schema)) if self.late is not None else set(self.keys) | self.reads

    def keeps(self, columns: Collection[str]) -> bool:
        """If they are part of the key."""
        return set(self.keys).issuperset(columns)


@dataclass(frozen=True)
class ProcessStep:
    """User code for each row, with a value of state for its key."""

    keys: tuple[str, ...]
    function: RowFunction
    schema: Schema
    state: Any
    name: str
    tables: tuple[TableUse, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", (TableUse(self.name, json_codec(self.state)),))

    def make(self) -> Operator:
        """A new operator."""
        return KeyedProcess(self.keys, self.function, self.schema, self.name)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """Everything: what a function reads can't be known."""
        return set(visible(schema))

    def keeps(self, columns: Collection[str]) -> bool:  # noqa: ARG002
        """It can't be known."""
        return False


def _late_rows(output: SideOutput | None) -> LateRows:
    return COUNTED if output is None else LateRows(output.topic)


def read_by(expressions: Sequence[pl.Expr], schema: Schema) -> set[str]:
    """Columns that the expressions read; all of them where a wildcard hides which."""
    if not all(_single(expression) for expression in expressions):
        return set(visible(schema))
    names = {name for expression in expressions for name in expression.meta.root_names()}
    return names & set(visible(schema))


def _single(expression: pl.Expr) -> bool:
    return not expression.meta.has_multiple_outputs()


def output_name(expression: pl.Expr) -> str:
    """Name of the column that the expression makes; empty where it can't be known without a schema."""
    return expression.meta.output_name(raise_if_undetermined=False) or ""
