"""Patterns searched by brute force, as :mod:`towpath.query.cep` states them: what the operator must find."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl
from hypothesis import strategies as st

from towpath.query import cep

LETTERS = "abcd"


class Row(NamedTuple):
    """A row of one key: its event time, what the conditions look at, and who it is."""

    time: int
    letter: str
    number: int


class Found(NamedTuple):
    """A match: event time of its first row, when it was certain, and the numbers of each step's rows."""

    start: int
    end: int
    rows: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Step:
    """A step by the name of its method; rows of these letters fit it."""

    kind: str
    letters: str
    times: int = 1
    consecutive: bool = False

    @property
    def negated(self) -> bool:
        return self.kind.startswith("not_")


@dataclass(frozen=True)
class Described:
    """A pattern."""

    steps: tuple[Step, ...]
    within: int
    skip: bool = False

    def written(self) -> cep.Pattern:
        """The same in the query API; step ``i`` is named ``s<i>``, and looks at the column ``letter``."""
        pattern: cep.Pattern | None = None
        for number, step in enumerate(self.steps):
            condition = pl.col("letter").is_in(list(step.letters))
            method = cep.begin if pattern is None else getattr(pattern, step.kind)
            pattern = method(f"s{number}", condition)
            if step.times > 1:
                pattern = pattern.times(step.times)
            if step.consecutive:
                pattern = pattern.consecutive()
        assert pattern is not None
        return pattern.within(self.within)

    def measures(self) -> dict[str, cep.Measure]:
        """The numbers of each step's rows."""
        taking = [f"s{number}" for number, step in enumerate(self.steps) if not step.negated]
        return {f"{name}_rows": cep.every(name, "number") for name in taking}

    @property
    def after_match(self) -> cep.AfterMatch:
        return "skip_past_last_event" if self.skip else "no_skip"

    def search(self, rows: Sequence[Row]) -> list[Found]:
        """All matches in rows of one key, which lie in their order, in the order in which they are certain."""
        found: list[tuple[int, int, Found]] = []
        passed = -1
        for start in range(len(rows)):
            taken = self._from(start, rows) if start > passed else None
            if taken is None:
                continue
            last = max(max(each) for each in taken)
            waits = self.steps[-1].negated
            end = rows[start].time + self.within if waits else rows[last].time
            numbers = tuple(tuple(rows[at].number for at in each) for each in taken)
            found.append((end if waits else last, start, Found(rows[start].time, end, numbers)))
            passed = last if self.skip else -1
        return [each for _, _, each in sorted(found)]

    def _from(self, start: int, rows: Sequence[Row]) -> list[list[int]] | None:
        """Places of the rows of each step, if a match begins here."""
        limit = sum(row.time < rows[start].time + self.within for row in rows)
        taken: list[list[int]] = []
        at = start - 1
        nots: list[Step] = []
        for step in self.steps:
            if step.negated:
                nots.append(step)
                continue
            places: list[int] = []
            for number in range(step.times):
                fit = [place for place in range(at + 1, limit) if rows[place].letter in step.letters]
                strict = step.consecutive if number else step.kind in ("begin", "next")
                if not fit or (strict and fit[0] != at + 1):
                    return None
                if not number and any(_harmed(each, rows, at, fit[0] + 1) for each in nots):
                    return None
                at = fit[0]
                places.append(at)
            nots = []
            taken.append(places)
        return None if any(_harmed(each, rows, at, limit) for each in nots) else taken


def _harmed(step: Step, rows: Sequence[Row], behind: int, limit: int) -> bool:
    looked_at = range(behind + 1, behind + 2 if step.kind == "not_next" else limit)
    return any(rows[place].letter in step.letters for place in looked_at)


def patterns() -> st.SearchStrategy[Described]:
    """Any pattern of up to four steps."""
    letters = st.sets(st.sampled_from(LETTERS), min_size=1, max_size=3).map(lambda chosen: "".join(sorted(chosen)))
    times = st.sampled_from([1, 1, 1, 2, 3])
    link = st.sampled_from(["next", "followed_by", "followed_by"])
    taking = st.builds(_taking, link, letters, times, st.booleans())
    barring = st.builds(Step, st.sampled_from(["not_next", "not_followed_by"]), letters)
    middle = st.lists(st.one_of(taking, barring), max_size=2)
    last = st.one_of(taking, st.builds(Step, st.just("not_followed_by"), letters))
    first = st.builds(_taking, st.just("begin"), letters, times, st.booleans())
    steps = st.builds(lambda a, b, c: (a, *b, c), first, middle, last).filter(_ends_well)
    return st.builds(Described, steps, st.integers(10, 120), st.booleans())


def _taking(kind: str, letters: str, times: int, consecutive: bool) -> Step:
    return Step(kind, letters, times, consecutive and times > 1)


def _ends_well(steps: Sequence[Step]) -> bool:
    """Whether no ``not_next`` is among the steps behind the last one that takes rows."""
    for step in reversed(steps):
        if not step.negated:
            return True
        if step.kind == "not_next":
            return False
    return True
