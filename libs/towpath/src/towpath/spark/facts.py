"""What Structured Streaming must know of the rows at a place of a query to say what can follow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from towpath.query.steps import Step


class Unfit(Exception):  # noqa: N818 - a reason on its way to a finding
    """A step can't run; the text is the reason, to be read behind the step's name."""


class Fit(NamedTuple):
    """How a step runs, and what holds behind it."""

    how: str
    facts: Facts


@dataclass(frozen=True)
class Facts:
    """Rows at a place of a streaming query.

    Attributes:
        running: the step whose running results these rows are: its sink is written in update mode.
        stateful: the last step before that keeps state and only appends: a window or a join.
        time: the column with the event time of the source's rows, as long as it is theirs; None: none, or replaced.
        of_windows: rows are results of windows, and their event time is the last moment of these.
    """

    running: str | None = None
    stateful: str | None = None
    time: str | None = None
    of_windows: bool = False

    @property
    def timed(self) -> bool:
        """Whether a watermark goes with the rows."""
        return self.time is not None or self.of_windows

    def behind(self, step: Step) -> Facts:
        """After a step that keeps no state."""
        return self if self.time is None or step.keeps([self.time]) else replace(self, time=None)

    def untimed(self) -> Facts:
        """After a step that loses the event time."""
        return replace(self, time=None, of_windows=False)

    def appending(self) -> Facts:
        """What a window or a join needs.

        Raises:
            Unfit: rows are running results.
        """
        if self.running is not None:
            raise Unfit(
                f"it would work on the running results of {self.running}, and Structured Streaming has no state over "
                "results that change"
            )
        return self

    def fresh(self) -> Facts:
        """What a running result needs.

        Raises:
            Unfit: something before it keeps state.
        """
        if self.stateful is not None:
            raise Unfit(
                f"it gives running results (update mode), and {self.stateful} before it gives final ones (append "
                "mode): Structured Streaming has one mode a query"
            )
        return self.appending()


def merged(arms: Sequence[Facts]) -> Facts:
    """Rows of several streams together.

    Raises:
        Unfit: running results are among them.
    """
    first, *others = arms
    for facts in arms:
        if others and facts.running is not None:
            raise Unfit(f"it would mix the running results of {facts.running} with other rows, in one output mode")
    if all(facts == first for facts in others):
        return first
    stateful = next((facts.stateful for facts in arms if facts.stateful is not None), None)
    times = {facts.time for facts in arms}
    time = times.pop() if len(times) == 1 else None
    return Facts(stateful=stateful, time=time, of_windows=all(facts.of_windows for facts in arms))
