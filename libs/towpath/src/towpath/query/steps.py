"""The steps a query is written in: each knows its operator, its tables, and which columns it looks at.

Here: what steps are, what many of them share, and those that judge each row by itself. Steps that keep state are in
modules of their kinds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import polars as pl

from statemgr.codecs import ValueCodec
from statemgr.state import head_codec, json_codec
from towpath.operators.growing_rows import Growing
from towpath.operators.keyed_rows import Keeping
from towpath.operators.lookup import Lookup
from towpath.operators.rows import BatchFunction, Explode, Filter, Keep, MapBatches, RequireKey, Select, WithColumns
from towpath.query.check import Schema, visible
from towpath.query.expressions import Expression
from towpath.query.plan import Operator


@dataclass(frozen=True)
class TableUse:
    """A state table that a step needs, before it has an id; ``chunks``: see :class:`statemgr.state.TableSpec`."""

    name: str
    codec: Any
    chunks: ValueCodec[Any] | None = None


def lists_table(name: str, note: Any = int) -> TableUse:
    """A table of lists of rows, each a list of its columns' values; ``note``: type of what is noted of a list."""
    return TableUse(name, head_codec(list[Any], note), json_codec(list[list[Any]]))


def table_for(name: str, keeping: Keeping) -> TableUse:
    """The table of kept rows: one value for all of a key, or, where they pile up, a list to which they are appended."""
    return lists_table(name) if isinstance(keeping, Growing) else TableUse(name, json_codec(list[list[Any]]))


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


class _Keyed(Protocol):
    @property
    def keys(self) -> Collection[str]: ...


class _Keeping(_Keyed, Protocol):
    @property
    def name(self) -> str: ...

    @property
    def reduction(self) -> Keeping: ...

    @property
    def reads(self) -> frozenset[str]: ...


class _Timed(Protocol):
    @property
    def on(self) -> str: ...


class Passing:
    """Of steps that leave the columns of a row as they are, or add some."""

    def keeps(self, columns: Collection[str]) -> bool:  # noqa: ARG002
        """It changes no column."""
        return True


class PassingInTime(Passing):
    """Of such steps that look at the event time, ``on``."""

    def needs(self: _Timed, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """What is wanted, and the event time."""
        return set(wanted) | {self.on}


class ByKey:
    """Of steps that give rows made of all rows of a key, ``keys``."""

    def keeps(self: _Keyed, columns: Collection[str]) -> bool:
        """If they are part of the key."""
        return set(self.keys).issuperset(columns)


class KeepingRows(ByKey):
    """Of such steps that keep rows per key, in a table of their name.

    ``reduction``: what is kept; ``reads``: columns that it is made of.
    """

    @property
    def tables(self: _Keeping) -> tuple[TableUse, ...]:
        """Of the rows."""
        return (table_for(self.name, self.reduction),)

    def needs(self: _Keeping, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """The key, and what is kept."""
        return set(self.keys) | self.reads


class UserCode:
    """Of steps that hand whole rows to code which nobody can look into."""

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """Everything: what it reads can't be known."""
        return set(visible(schema))

    def keeps(self, columns: Collection[str]) -> bool:  # noqa: ARG002
        """It can't be known."""
        return False


@dataclass(frozen=True)
class FilterStep(Passing):
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
    """Rows of one side of a join, in the columns that both sides have.

    Attributes:
        of_right: it is the right side, or the table's.
        joins: name of the step in which the sides meet.
        on: column of the event time by which they meet; None: by none.
    """

    of_right: bool = False
    joins: str = ""
    on: str | None = None


@dataclass(frozen=True)
class MapBatchesStep(UserCode):
    """A user function on each batch."""

    function: BatchFunction
    name: str
    tables: tuple[TableUse, ...] = ()

    def make(self) -> Operator:
        """A new operator."""
        return MapBatches(self.function)


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
class RequireKeyStep(Passing):
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


@dataclass(frozen=True, eq=False)
class LookupStep(Passing):
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
