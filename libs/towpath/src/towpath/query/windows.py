"""Windows of event time, for :meth:`towpath.query.KeyedStream.window`."""

from __future__ import annotations

from towpath.operators.windows import Window
from towpath.query.errors import QueryError

__all__ = ["Window", "hopping", "tumbling"]


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
