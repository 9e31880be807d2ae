"""The steps of windows of event time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from towpath.operators.growing_rows import Growing
from towpath.operators.keyed_rows import Reduction
from towpath.operators.late import COUNTED, LateRows
from towpath.operators.sessions import Sessions, SessionWindows
from towpath.operators.windowed_rows import WindowedRows
from towpath.operators.windows import WINDOW_END, AssignWindows, RequireEventTime, Until, Window
from towpath.query.check import Schema, visible
from towpath.query.plan import Operator
from towpath.query.side_outputs import SideOutput
from towpath.query.steps import KeepingRows, Passing, PassingInTime, TableUse


@dataclass(frozen=True)
class RequireEventTimeStep(PassingInTime):
    """Rows without event time go to the dead-letter topic."""

    on: str
    name: str = "require_event_time"
    tables: tuple[TableUse, ...] = ()

    def make(self) -> Operator:
        """A new operator."""
        return RequireEventTime(self.on)


@dataclass(frozen=True)
class AssignWindowsStep(Passing):
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


class _Late(Protocol):
    @property
    def late(self) -> SideOutput | None: ...


class _Windowed(KeepingRows):
    """Of steps whose rows may come too late; ``late``: where such rows go, None: they are only counted."""

    @property
    def side_outputs(self: _Late) -> tuple[SideOutput, ...]:
        """See :class:`towpath.query.side_outputs.Siding`."""
        return () if self.late is None else (self.late,)

    @property
    def late_rows(self: _Late) -> LateRows:
        """What their operators do with such rows."""
        return COUNTED if self.late is None else LateRows(self.late.topic)


@dataclass(frozen=True)
class WindowedRowsStep(_Windowed):
    """Rows kept per key and window.

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
    reduction: Reduction | Growing
    columns: Schema
    reads: frozenset[str]
    name: str
    late: SideOutput | None = None
    updates: bool = False

    def make(self) -> Operator:
        """A new operator."""
        return WindowedRows(
            self.keys,
            self.window,
            self.reduction,
            self.columns,
            self.name,
            late=self.late_rows,
            updates=self.updates,
        )

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:
        """The key and the window, and what is kept; everything where late rows are written."""
        return set(visible(schema)) if self.late is not None else super().needs(wanted, schema) | {WINDOW_END}


@dataclass(frozen=True)
class SessionsStep(_Windowed):
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
    late: SideOutput | None = None

    @property
    def reduction(self) -> Sessions:
        """See :class:`towpath.query.steps.KeepingRows`."""
        return self.sessions

    def make(self) -> Operator:
        """A new operator."""
        return SessionWindows(self.keys, self.sessions, self.columns, self.name, self.late_rows)

    def needs(self, wanted: Collection[str], schema: Schema) -> set[str]:
        """The key, and what is kept; everything where late rows are written."""
        return set(visible(schema)) if self.late is not None else super().needs(wanted, schema)
