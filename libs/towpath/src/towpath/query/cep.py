"""Patterns over the rows of a key, for :meth:`towpath.query.KeyedStream.match`, in the words of Flink CEP.

::

    from towpath.query import cep

    probed = (
        cep.begin("probe", pl.col("amount") < 500).times(3)
        .not_followed_by("cleared", pl.col("kind") == "cleared")
        .followed_by("charge", pl.col("amount") > 50_000)
        .within(60_000)
    )
    payments.key_by("card").match(probed, on="time", amounts=cep.every("probe", "amount"))

The rows of a key are looked at in the order of their event times, those of one time in the order in which they came.
Every row that fits the first step begins a run, which takes the first row that fits its next step, and so on: there is
at most one match for each first row. A condition is true of a row by itself; null counts as false; a step without
conditions is fit by every row.

==========================  ==========================================================================================
``begin(a)``                the first row
``.followed_by(b)``         the first later row that fits (relaxed contiguity: rows between do not matter)
``.next(b)``                the row just behind (strict contiguity); if it does not fit, there is no match
``.not_followed_by(n)``     no row fits ``n`` from there to the row that the next step takes, that row included; at the
                            end of a pattern: to the end of its time, at which the match comes
``.not_next(n)``            the row just behind, if any, does not fit ``n``
``.times(k)``               the step before takes that many rows, with any rows between them
``.consecutive()``          … with no rows between them
``.within(ms)``             each row comes less than ``ms`` after the first one; every pattern must have it
==========================  ==========================================================================================
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from towpath.operators.matching import MOST_STEPS
from towpath.operators.pattern import Pick, Take
from towpath.query.errors import QueryError

__all__ = ["AfterMatch", "Measure", "Pattern", "begin", "every", "first", "last"]

AfterMatch = Literal["no_skip", "skip_past_last_event"]
"""What becomes of other runs when a match is found: they go on, or those are dropped that began with or before its last
row, so that no row is in two matches."""


@dataclass(frozen=True, eq=False)
class PatternStep:
    """One step: rows that fit it are taken, or, if ``negated``, must not come.

    Attributes:
        name: unique in the pattern.
        conditions: all of them must be true.
        strict: it is about the row just behind the one before.
        negated: whether no row may fit.
        count: rows that it takes.
        consecutive: with no rows between them.
    """

    name: str
    conditions: tuple[pl.Expr, ...]
    strict: bool = False
    negated: bool = False
    count: int = 1
    consecutive: bool = False


@dataclass(frozen=True, eq=False)
class Pattern:
    """Steps, and the time in which they must be done; every method gives a new pattern."""

    steps: tuple[PatternStep, ...]
    within_ms: int | None = None

    def next(self, name: str, *conditions: pl.Expr) -> Pattern:
        """The row just behind fits."""
        return self._and(PatternStep(name, conditions, strict=True))

    def followed_by(self, name: str, *conditions: pl.Expr) -> Pattern:
        """A later row fits; the first one is taken."""
        return self._and(PatternStep(name, conditions))

    def not_next(self, name: str, *conditions: pl.Expr) -> Pattern:
        """The row just behind does not fit."""
        return self._and(PatternStep(name, conditions, strict=True, negated=True))

    def not_followed_by(self, name: str, *conditions: pl.Expr) -> Pattern:
        """No row fits until the next step takes its first one; at the end of the pattern: in the rest of its time."""
        return self._and(PatternStep(name, conditions, negated=True))

    def times(self, count: int) -> Pattern:
        """The step before takes that many rows.

        Raises:
            QueryError: less than one, or the step before takes no rows.
        """
        if count < 1:
            raise QueryError(f"pattern {self}: times({count}), but a step takes at least one row")
        return self._with_last("times", count=count)

    def consecutive(self) -> Pattern:
        """The rows of the step before come with no others between them.

        Raises:
            QueryError: it takes none, or one.
        """
        if self.steps[-1].count == 1 and not self.steps[-1].negated:
            raise QueryError(f"pattern {self}: consecutive() belongs behind times(…) of two rows or more")
        return self._with_last("consecutive", consecutive=True)

    def within(self, ms: int) -> Pattern:
        """Each row comes less than ``ms`` of event time after the first one.

        Raises:
            QueryError: the time is not positive.
        """
        if ms <= 0:
            raise QueryError(f"pattern {self}: within({ms}), but the time must be positive")
        return replace(self, within_ms=ms)

    @property
    def taking(self) -> list[str]:
        """Names of the steps that take rows, in their order."""
        return [step.name for step in self.steps if not step.negated]

    def takes(self) -> list[Take]:
        """What the automaton is told: what a run waits for, one after the other; step ``i`` has bit ``1 << i``.

        Raises:
            QueryError: the pattern ends with ``not_next``.
        """
        found: list[Take] = []
        never = not_next = 0
        for number, step in enumerate(self.steps):
            bit = 1 << number
            if step.negated and step.strict:
                not_next |= bit
            elif step.negated:
                never |= bit
            else:
                found.append(Take(bit, step.count, step.strict, step.consecutive, never, not_next))
                never = not_next = 0
        if not_next:
            raise QueryError(f"pattern {self} ends with not_next(…): end it with not_followed_by(…), or a step")
        return [*found, Take(0, never=never)] if never else found

    def _and(self, step: PatternStep) -> Pattern:
        if any(step.name == other.name for other in self.steps):
            raise QueryError(f"pattern {self} has a step {step.name!r} already: give this one another name")
        if len(self.steps) == MOST_STEPS:
            raise QueryError(f"pattern {self} has {MOST_STEPS} steps, and can't have more")
        return replace(self, steps=(*self.steps, step))

    def _with_last(self, what: str, *, count: int | None = None, consecutive: bool = False) -> Pattern:
        *before, step = self.steps
        if step.negated:
            raise QueryError(f"pattern {self}: {what}(…) belongs behind a step that takes rows, not {step.name!r}")
        return replace(
            self, steps=(*before, replace(step, count=count or step.count, consecutive=consecutive or step.consecutive))
        )

    def __str__(self) -> str:
        return " → ".join(f"not {step.name}" if step.negated else step.name for step in self.steps)


def begin(name: str, *conditions: pl.Expr) -> Pattern:
    """A pattern of one step so far."""
    return Pattern((PatternStep(name, conditions),))


@dataclass(frozen=True)
class Measure:
    """A value of a match: a column of the rows of a step; made by :func:`first`, :func:`last` and :func:`every`."""

    pick: Pick
    step: str
    column: str


def first(step: str, column: str) -> Measure:
    """Value of the first row that the step has taken."""
    return Measure("first", step, column)


def last(step: str, column: str) -> Measure:
    """Value of the last row that the step has taken."""
    return Measure("last", step, column)


def every(step: str, column: str) -> Measure:
    """Values of all rows that the step has taken, as a list."""
    return Measure("every", step, column)
