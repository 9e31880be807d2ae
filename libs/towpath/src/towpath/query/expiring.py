"""State with a time to live: how a query asks for it, and the steps that have it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from statemgr.state import json_codec
from towpath.operators.distinct import Distinct, ExpiringDistinct
from towpath.operators.expiring_lists import ExpiringLists
from towpath.operators.expiring_rows import ExpiringRows
from towpath.operators.expiry import Expiry
from towpath.operators.growing_rows import Growing
from towpath.operators.keyed_rows import Reduction
from towpath.query.check import Schema, resulting_schema
from towpath.query.errors import QueryError
from towpath.query.graph import sources_of
from towpath.query.keyed_steps import KeyedRowsStep
from towpath.query.place import Place, require_event_time, require_timed
from towpath.query.plan import Operator
from towpath.query.reductions import Kept, kept_columns
from towpath.query.steps import KeepingRows, Passing, TableUse
from towpath.query.windowed_steps import RequireEventTimeStep


@dataclass(frozen=True)
class ExpiringRowsStep(KeepingRows):
    """Rows kept per key for some time.

    Attributes:
        keys: key columns.
        kept: what is kept.
        columns: kept columns → Polars type.
        expiry: for how long.
    """

    keys: tuple[str, ...]
    kept: Kept
    columns: Schema
    expiry: Expiry

    @property
    def name(self) -> str:
        """That of what is kept."""
        return self.kept.name

    @property
    def reduction(self) -> Reduction | Growing:
        """What is kept."""
        return self.kept.reduction

    @property
    def reads(self) -> frozenset[str]:
        """Columns that it is made of."""
        return self.kept.reads

    def make(self) -> Operator:
        """A new operator."""
        if isinstance(self.reduction, Growing):
            return ExpiringLists(self.keys, self.reduction, self.name, self.expiry)
        return ExpiringRows(self.keys, self.reduction, self.columns, self.name, self.expiry)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:
        """The key, the event time, and what is kept."""
        return super().needs(wanted, schema) | {self.expiry.on}


@dataclass(frozen=True)
class DistinctStep(Passing):
    """The first row of each key; ``expiry``: when a key is forgotten, None: never."""

    keys: tuple[str, ...]
    expiry: Expiry | None
    name: str = "distinct"
    tables: tuple[TableUse, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "tables", (TableUse(self.name, json_codec(int)),))

    def make(self) -> Operator:
        """A new operator."""
        if self.expiry is None:
            return Distinct(self.keys, self.name)
        return ExpiringDistinct(self.keys, self.name, self.expiry)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """What is wanted, the key and the event time."""
        return {*wanted, *self.keys} | (set() if self.expiry is None else {self.expiry.on})


def expiring(place: Place, ttl_ms: int | None, on: str | None, step: str) -> tuple[Place, Expiry | None]:
    """Where a keyed step goes on, and when its state goes away.

    Args:
        place: where its rows are.
        ttl_ms: event time that goes by after a key's newest row; None: its state stays.
        on: column of the event time; None: that of the sources.
        step: what messages call it.

    Raises:
        QueryError: the time is not positive, or rows have no event time.
    """
    label = place.label(step)
    if ttl_ms is None:
        if on is not None:
            raise QueryError(f"{label}: ttl_on={on!r} says of which time, but ttl_ms not how much of it")
        return place, None
    if ttl_ms <= 0:
        raise QueryError(f"{label}: ttl_ms={ttl_ms}, but state has to live for some time")
    require_timed(place, label)
    column = on or _of_sources(place, label)
    require_event_time(place, column, f"{label}, ttl_on")
    return place.apply(RequireEventTimeStep(column)), Expiry(ttl_ms, column)


def keep(place: Place, keys: Sequence[str], kept: Kept, expiry: Expiry | None, prefix: str = "") -> Place:
    """Add a step that keeps rows per key, checked against the columns here.

    Args:
        place: where rows come from.
        keys: their key.
        kept: what is kept of them.
        expiry: for how long; None: for good.
        prefix: of names that mean nothing to the user.

    Raises:
        QueryError: it does not fit.
    """
    step = KeyedRowsStep(tuple(keys), kept.reduction, kept.reads, kept.name)
    if expiry is None:
        result = place.apply(step)
        kept_columns(place, keys, kept.reduction, kept.name, prefix)
        return result
    resulting_schema(step.make(), place.schema, place.label(kept.name))
    columns = kept_columns(place, keys, kept.reduction, kept.name, prefix)
    return place.apply(ExpiringRowsStep(tuple(keys), kept, columns, expiry))


def _of_sources(place: Place, label: str) -> str:
    """The column of the event time that all sources name, if it is still there."""
    columns = {source.event_time.column for source in sources_of(place.node) if source.event_time is not None}
    if len(columns) == 1 and columns <= place.schema.keys():
        return columns.pop()
    missing = " or ".join(sorted(columns))
    raise QueryError(f"{label}: rows have no column {missing} here: name that of their time, ttl_on='…'")
