"""The steps that keep state per key, for all of its rows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from statemgr.state import json_codec
from towpath.operators.combine import Combine
from towpath.operators.count import KeyedCount
from towpath.operators.growing_rows import Growing, GrowingRows
from towpath.operators.keyed_rows import KeyedRows, Reduction
from towpath.operators.process import KeyedProcess, RowFunction
from towpath.query.check import Schema
from towpath.query.plan import Operator, OperatorPlan
from towpath.query.steps import ByKey, KeepingRows, TableUse, UserCode


@dataclass(frozen=True)
class CountStep(ByKey):
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


@dataclass(frozen=True)
class KeyedRowsStep(KeepingRows):
    """Rows kept per key; ``reads``: columns that they are made of."""

    keys: tuple[str, ...]
    reduction: Reduction | Growing
    reads: frozenset[str]
    name: str

    def make(self) -> Operator:
        """A new operator."""
        if isinstance(self.reduction, Growing):
            return GrowingRows(self.keys, self.reduction, self.name)
        return KeyedRows(self.keys, self.reduction, self.name)


@dataclass(frozen=True)
class ProcessStep(UserCode):
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
