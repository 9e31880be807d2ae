"""The step of event-at-a-time code with timers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from statemgr.state import json_codec
from towpath.operators.process import KeyState, Row, RowFunction
from towpath.operators.timed_process import (
    Code,
    KeyTimers,
    TimedProcess,
    TimedRowFunction,
    TimedValue,
    TimerFunction,
)
from towpath.query.check import Schema
from towpath.query.expiring import expiring
from towpath.query.place import Place, require_timed
from towpath.query.plan import Operator
from towpath.query.steps import TableUse, UserCode


@dataclass(frozen=True)
class TimedProcessStep(UserCode):
    """User code for rows and timers, with a value of state for each key.

    Attributes:
        keys: key column → Polars type.
        code: the functions.
        schema: columns that come out.
        state: type of the value.
    """

    keys: Schema
    code: Code
    schema: Schema
    state: Any
    name: str
    tables: tuple[TableUse, ...] = field(init=False)

    def __post_init__(self) -> None:
        kind = cast(Any, TimedValue)[self.state]
        object.__setattr__(self, "tables", (TableUse(self.name, json_codec(kind)),))

    def make(self) -> Operator:
        """A new operator."""
        return TimedProcess(self.keys, self.code, self.schema, self.name)


def timed_process(
    place: Place,
    keys: Sequence[str],
    function: RowFunction | TimedRowFunction,
    on_timer: TimerFunction | None,
    *,
    schema: Schema,
    state: Any,
    name: str,
    ttl_ms: int | None,
    ttl_on: str | None,
) -> Place:
    """Add the step; see :meth:`towpath.query.KeyedStream.process`.

    Raises:
        QueryError: rows have no event time, or the time to live can't be.
    """
    place, expiry = expiring(place, ttl_ms, ttl_on, name)
    require_timed(place, place.label(name))
    if on_timer is None:
        code = Code(_without_timers(cast(RowFunction, function)), _no_timer, expiry)
    else:
        code = Code(cast(TimedRowFunction, function), on_timer, expiry)
    typed = {key: place.schema[key] for key in keys}
    return place.apply(TimedProcessStep(typed, code, dict(schema), state, name))


def _without_timers(function: RowFunction) -> TimedRowFunction:
    def on_row(row: Row, state: KeyState, timers: KeyTimers) -> Iterable[Mapping[str, Any]]:  # noqa: ARG001
        return function(row, state)

    return on_row


def _no_timer(*_: object) -> Iterable[Mapping[str, Any]]:
    """Never called: nobody sets a timer."""
    return ()
