"""Windows of event time and of rows, for :meth:`towpath.query.KeyedStream.window`."""

from __future__ import annotations

from towpath.operators.windows import Every, Session, Until, Window
from towpath.query.errors import QueryError

__all__ = ["Every", "Session", "Until", "Window", "every", "hopping", "session", "tumbling", "until"]


def every(rows: int, *, over: int | None = None) -> Every:
    """Windows of ``rows`` rows of a key, or of its last ``over`` rows after every ``rows``; no clock is asked.

    Raises:
        QueryError: ``over`` is no positive multiple of ``rows``.
    """
    size = rows if over is None else over
    if rows <= 0 or size < rows or size % rows:
        raise QueryError(
            f"a window of {size} rows after every {rows}: the size must be a multiple of the rows between, more than 0"
        )
    return Every(rows, size // rows)


def session(gap_ms: int) -> Session:
    """Windows of one key that last until nothing has come for ``gap_ms``; rows exactly so far apart belong together.

    Raises:
        QueryError: the gap is not positive.
    """
    if gap_ms <= 0:
        raise QueryError(f"a session with a gap of {gap_ms} ms: the gap must be positive")
    return Session(gap_ms)


def until(column: str) -> Until:
    """One window for the rows of a key that have the same moment in a column (ms, Int64); it closes at that moment."""
    return Until(column)


def tumbling(size_ms: int) -> Window:
    """Windows one behind the other; they begin at the multiples of their size since the epoch."""
    return hopping(size_ms, size_ms)


def hopping(size_ms: int, slide_ms: int) -> Window:
    """Windows of ``size_ms`` that begin every ``slide_ms``, at its multiples since the epoch; also called sliding.

    Raises:
        QueryError: the size is no positive multiple of the slide.
    """
    if slide_ms <= 0 or size_ms < slide_ms or size_ms % slide_ms:
        raise QueryError(
            f"a window of {size_ms} ms every {slide_ms} ms: the size must be a multiple of the slide, both positive"
        )
    return Window(size_ms, slide_ms)
