"""What is traced with, whether or not anything is traced."""

from __future__ import annotations

from typing import Protocol

About = str | int | float | bool
"""A value of a span's attribute."""


class Spans(Protocol):
    """Takes spans. Nothing here raises or waits; times are monotonic seconds of the process's clock."""

    def begin(self, name: str, **about: About) -> str:
        """Begin a trace with a span that :meth:`end` ends; gives the trace's context, empty if nothing is traced."""
        ...

    def end(self, trace: str, **about: About) -> None:
        """End the span that a trace began with; nothing happens where another process has begun it."""
        ...

    def span(self, name: str, trace: str, begun_s: float, ended_s: float, **about: About) -> None:
        """A part of a trace, that is over; nothing happens without a context."""
        ...

    def close(self) -> None:
        """Send what is left, for a moment at most."""
        ...


class _NoSpans:
    """Nothing is traced."""

    def begin(self, name: str, **about: About) -> str:  # noqa: ARG002 - nothing is done with it
        """See :class:`Spans`."""
        return ""

    def end(self, trace: str, **about: About) -> None:
        """See :class:`Spans`."""

    def span(self, name: str, trace: str, begun_s: float, ended_s: float, **about: About) -> None:
        """See :class:`Spans`."""

    def close(self) -> None:
        """See :class:`Spans`."""


NO_SPANS: Spans = _NoSpans()
"""For processes that trace nothing."""
