"""Patterns over the rows of one key: an automaton, and its runs. Pure; knows of no columns, batches or stores.

::

    row ──▶ every run: it ends · it waits on · it takes the row ──▶ … ──▶ match


Every row that fits the first step begins one run, and a run never has a choice: it takes the first row that fits the
step that it waits for. Known as skip till next match: Agrawal, Diao, Gyllstrom and Immerman, "Efficient Pattern
Matching over Event Streams", SIGMOD 2008, section 2.1. Of two runs that go on, the one that began first is never behind
the other: matches come in the order in which they begin.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Literal, NamedTuple

import msgspec

Pick = Literal["first", "last", "every"]

TIME, FITS = 0, 1
"""Places in a row: its event time in ms, and a bit for each step that it fits; behind them its values."""


@dataclass(frozen=True)
class Take:
    """What a run waits for next.

    Attributes:
        fits: bit of the rows that it takes; 0: it takes none, but waits for the end of its time.
        times: so many rows.
        strict: the first of them is the row just behind the one before.
        consecutive: each of the others is, too.
        never: bits of rows that end the run before the first of them is taken.
        not_next: bits of rows that end the run if they come just behind the one before.
    """

    fits: int
    times: int = 1
    strict: bool = False
    consecutive: bool = False
    never: int = 0
    not_next: int = 0

    @property
    def looks_at_all_rows(self) -> bool:
        """Whether rows that fit nothing make a difference."""
        return self.strict or self.consecutive or bool(self.not_next)


class Slot(NamedTuple):
    """A value of a match: which row's of those that a take has, and its place in the row."""

    pick: Pick
    take: int
    place: int


class Run(msgspec.Struct, frozen=True, array_like=True):
    """A pattern that has begun.

    Attributes:
        start_ms: event time of its first row.
        began: number of its first row.
        last: number of its latest row.
        take: what it waits for.
        taken: rows that this has already.
        values: one for each slot.
    """

    start_ms: int
    began: int
    last: int
    take: int
    taken: int
    values: list[Any]


class Kept(NamedTuple):
    """What is kept of a key.

    Attributes:
        seen: number of the latest row that was judged.
        rows: those that wait to be judged, in the order in which they came.
        runs: those that go on, in the order in which they began.
    """

    seen: int
    rows: list[list[Any]]
    runs: list[Run]


class Begun(msgspec.Struct, frozen=True, array_like=True):
    """What is kept of a key beside its rows.

    Attributes:
        seen: see :class:`Kept`.
        runs: see :class:`Kept`.
        due_ms: event time at which there is something to do.
    """

    seen: int
    runs: list[Run]
    due_ms: int


class Match(NamedTuple):
    """A pattern that was found.

    Attributes:
        start_ms: event time of its first row.
        end_ms: when it was certain: event time of its last row, or the end of its time if it had to wait for that.
        values: one for each slot.
    """

    start_ms: int
    end_ms: int
    values: list[Any]


class Automaton:
    """Judges the rows of a key in the order of their event times.

    Args:
        takes: what a run waits for, one after the other.
        within_ms: all rows of a match come less than that after its first one.
        slots: the values of a match.
        skip_past: a match drops the runs that began with or before its last row; else all runs go on.
    """

    def __init__(self, takes: Sequence[Take], within_ms: int, slots: Sequence[Slot], *, skip_past: bool) -> None:
        self._takes = tuple(takes)
        self._within_ms = within_ms
        self._blank: list[Any] = [[] if slot.pick == "every" else None for slot in slots]
        self._slots = [
            [(number, slot.pick, slot.place) for number, slot in enumerate(slots) if slot.take == take]
            for take in range(len(takes))
        ]
        self._skip_past = skip_past

    def judge(self, kept: Kept, before_ms: int) -> tuple[Kept, list[Match]]:
        """Judge the rows before a moment that event time has come to; rows of one time in the order in which they came.

        Returns:
            What is to be kept, and the matches in the order in which they were certain.
        """
        matches: list[Match] = []
        due = sorted((row for row in kept.rows if row[TIME] < before_ms), key=itemgetter(TIME))
        runs = kept.runs
        for number, row in enumerate(due, kept.seen + 1):
            runs = self._end(runs, row[TIME], matches)
            runs = self._step(runs, row, number, matches)
        runs = self._end(runs, before_ms, matches)
        waiting = [row for row in kept.rows if row[TIME] >= before_ms]
        return Kept(kept.seen + len(due), waiting, runs), matches

    def due(self, kept: Kept) -> int:
        """Event time at which there is something to do; something must be kept.

        A row may be judged when no other of its time can come any more.
        """
        moments: list[int] = [row[TIME] + 1 for row in kept.rows]
        return min(moments + [self._deadline(run) for run in kept.runs[:1]])

    def knows(self, kept: Kept, row_length: int) -> bool:
        """Whether this was kept by the same pattern, as far as can be seen."""
        return all(len(row) == row_length for row in kept.rows) and all(
            len(run.values) == len(self._blank) and run.take < len(self._takes) for run in kept.runs
        )

    def _deadline(self, run: Run) -> int:
        return run.start_ms + self._within_ms

    def _end(self, runs: list[Run], now_ms: int, matches: list[Match]) -> list[Run]:
        """End the runs whose time is over; those that waited for just that are matches."""
        ended = [run for run in runs if self._deadline(run) <= now_ms]
        passed = 0
        for run in ended:
            if run.began > passed and not self._takes[run.take].fits:
                matches.append(Match(run.start_ms, self._deadline(run), run.values))
                passed = run.last if self._skip_past else 0
        return [run for run in runs[len(ended) :] if run.began > passed] if ended else runs

    def _step(self, runs: list[Run], row: list[Any], number: int, matches: list[Match]) -> list[Run]:
        """Show a row to all runs, and to the one that begins with it."""
        begins = [Run(row[TIME], number, number, 0, 0, self._blank)] if row[FITS] & self._takes[0].fits else []
        after: list[Run] = []
        for run in [*runs, *begins]:
            moved = self._moved(run, row, number)
            if moved is None:
                continue
            if moved.take < len(self._takes):
                after.append(moved)
                continue
            matches.append(Match(moved.start_ms, row[TIME], moved.values))
            if self._skip_past:
                return []
        return after

    def _moved(self, run: Run, row: list[Any], number: int) -> Run | None:
        """The run behind a row; None if that ends it."""
        take, fits = self._takes[run.take], row[FITS]
        if not run.taken and (fits & take.never or (number == run.last + 1 and fits & take.not_next)):
            return None
        if fits & take.fits:
            return self._taken(run, row, number)
        return None if (take.consecutive if run.taken else take.strict) else run

    def _taken(self, run: Run, row: list[Any], number: int) -> Run:
        values = list(run.values)
        for slot, pick, place in self._slots[run.take]:
            if pick == "every":
                values[slot] = [*values[slot], row[place]]
            elif pick == "last" or not run.taken:
                values[slot] = row[place]
        whole = run.taken + 1 == self._takes[run.take].times
        take, taken = (run.take + 1, 0) if whole else (run.take, run.taken + 1)
        return Run(run.start_ms, run.began, number, take, taken, values)
