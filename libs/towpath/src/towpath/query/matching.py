"""Search for patterns: its steps, and the checks of a pattern against the rows that it will see."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import polars as pl

from towpath.operators.matching import MATCH_END, MATCH_START, STEPS_FIT, Fit, InTime, PatternMatch
from towpath.operators.pattern import Automaton, Begun, Slot
from towpath.operators.rows import Filter
from towpath.query.cep import AfterMatch, Measure, Pattern
from towpath.query.check import Schema, check_names, check_row_wise, resulting_schema, unknown_column, visible
from towpath.query.errors import ColumnTypeError, QueryError, nearest
from towpath.query.place import Place, require_event_time
from towpath.query.plan import Operator
from towpath.query.reductions import can_be_kept
from towpath.query.steps import ByKey, Passing, PassingInTime, TableUse, lists_table, read_by
from towpath.query.windowed_steps import RequireEventTimeStep

NAME = "match"
"""Of the step and its table."""


@dataclass(frozen=True)
class FitStep(Passing):
    """Which steps of a pattern a row fits."""

    conditions: tuple[tuple[pl.Expr, ...], ...]
    all_rows: bool
    name: str = "fit"
    tables: tuple[TableUse, ...] = ()

    def make(self) -> Operator:
        """A new operator."""
        return Fit(self.conditions, all_rows=self.all_rows)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:
        """What is wanted and comes from before, and what the conditions read."""
        conditions = [condition for each in self.conditions for condition in each]
        return set(wanted) - {STEPS_FIT} | read_by(conditions, schema)


@dataclass(frozen=True)
class InTimeStep(PassingInTime):
    """Late rows are left out."""

    on: str
    name: str = "in_time"
    tables: tuple[TableUse, ...] = ()

    def make(self) -> Operator:
        """A new operator."""
        return InTime(self.on)


@dataclass(frozen=True)
class MatchStep(ByKey):
    """The search.

    Attributes:
        keys: key column → Polars type.
        on: column of the event time.
        columns: what is kept of a row besides.
        automaton: finds matches.
        values: column of each of a match's values → Polars type.
    """

    keys: Schema
    on: str
    columns: tuple[str, ...]
    automaton: Automaton
    values: Schema
    name: str = NAME
    tables: tuple[TableUse, ...] = (lists_table(NAME, Begun),)

    def make(self) -> Operator:
        """A new operator."""
        return PatternMatch(self.keys, self.on, self.columns, self.automaton, self.values, self.name)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:  # noqa: ARG002
        """The key, and what is kept."""
        return {*self.keys, self.on, STEPS_FIT, *self.columns}


class Search:
    """A pattern and what is wanted of its matches, checked against the rows' columns."""

    def __init__(
        self,
        places: Sequence[Place],
        keys: Sequence[str],
        pattern: Pattern,
        on: str,
        after_match: AfterMatch,
        measures: Mapping[str, Measure],
    ) -> None:
        """Check everything.

        Args:
            places: where rows come from.
            keys: their key.
            pattern: what is searched.
            on: column of the event time.
            after_match: what becomes of other runs.
            measures: column of a match → what it is.

        Raises:
            QueryError: the pattern has no end in time, or something can't be; see the messages.
        """
        label = places[0].label(NAME)
        if pattern.within_ms is None:
            raise QueryError(
                f"{label}: pattern {pattern} has no end in time, so that what has begun would be kept for ever: "
                "end it with .within(ms)"
            )
        if after_match not in get_args(AfterMatch):
            known = " or ".join(map(repr, get_args(AfterMatch)))
            raise QueryError(f"{label}: after_match={after_match!r}, but it is {known}")
        for place in places:
            require_event_time(place, on, place.label(NAME))
            _check_conditions(place, pattern)
        schema = places[0].schema
        _check_measures(label, keys, pattern, measures, schema)
        columns = dict.fromkeys(measure.column for measure in measures.values() if measure.column != on)
        row = [on, STEPS_FIT, *columns]
        taking, takes = pattern.taking, pattern.takes()
        slots = [Slot(each.pick, taking.index(each.step), row.index(each.column)) for each in measures.values()]
        automaton = Automaton(takes, pattern.within_ms, slots, skip_past=after_match == "skip_past_last_event")
        values = {name: _type(measure, schema) for name, measure in measures.items()}
        self._fit = FitStep(
            tuple(step.conditions for step in pattern.steps), any(take.looks_at_all_rows for take in takes)
        )
        self._match = MatchStep({key: schema[key] for key in keys}, on, tuple(columns), automaton, values)

    def before_edge(self, place: Place) -> Place:
        """What is done to rows before they are brought together by key: most of them need not be."""
        return place.apply(self._fit)

    def behind_edge(self, place: Place) -> Place:
        """The search."""
        on = self._match.on
        return place.apply(RequireEventTimeStep(on)).apply(InTimeStep(on)).apply(self._match)


def _check_conditions(place: Place, pattern: Pattern) -> None:
    for step in pattern.steps:
        label = f"{place.label(NAME)}, step {step.name!r}"
        check_row_wise(step.conditions, label)
        for condition in step.conditions:
            resulting_schema(Filter([condition]), place.schema, label)


def _check_measures(
    label: str, keys: Sequence[str], pattern: Pattern, measures: Mapping[str, Measure], schema: Schema
) -> None:
    check_names(measures, label)
    for name, measure in measures.items():
        if name in (*keys, MATCH_START, MATCH_END):
            raise QueryError(f"{label}: matches have a column {name!r} already; choose another name")
        if measure.step not in pattern.taking:
            known = pattern.taking
            raise QueryError(
                f"{label}, {name}: no step {measure.step!r} takes rows{nearest(measure.step, known)} "
                f"(steps that do: {', '.join(known)})"
            )
        if measure.column not in visible(schema):
            raise unknown_column(measure.column, schema, f"{label}, {name}")
        if not can_be_kept(schema[measure.column]):
            raise ColumnTypeError(
                f"{label}: column {measure.column!r} is {schema[measure.column]}, which can't be kept in state; "
                "cast it to an integer, a float or text first"
            )


def _type(measure: Measure, schema: Schema) -> Any:
    dtype = schema[measure.column]
    return pl.List(dtype) if measure.pick == "every" else dtype
