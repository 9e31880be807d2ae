"""Hands out rows at their intended times: the pure part of the paced reader.

Why a reader that paces itself: a micro-batch emits all its rows at once, so with a trigger of one second an
event is 0.7 s late at the median before anything downstream has touched it. Here one long micro-batch is fed
row by row as time passes. Rows are prepared ahead, one small piece at a time and only while nothing is due,
so that preparing never holds up a row that is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["PIECE_MS", "PIECE_ROWS", "PaceSettings", "Piece", "Sliceable", "pace", "piece_bounds"]

PIECE_MS = 50
"""Schedule time of one prepared piece. At 10 k events/s that is 500 rows, 2–3 ms of work: the longest
time for which a row that has become due waits for the preparation of later ones."""

PIECE_ROWS = 8192
"""Most rows of a piece, for rates far above what one core can encode."""


class Sliceable(Protocol):
    """What is handed out: anything with Arrow's zero-copy `slice`."""

    def slice(self, offset: int = 0, length: int | None = None) -> Sliceable:
        """Rows `offset` to `offset + length`."""
        ...


RowsT = TypeVar("RowsT", bound=Sliceable)


@dataclass(frozen=True, slots=True)
class Piece(Generic[RowsT]):
    """Prepared rows and the wall-clock times at which they are to be handed out.

    Attributes:
        due_ms: Milliseconds since the Unix epoch, one per row, ascending.
        rows: The rows.
    """

    due_ms: NDArray[np.float64]
    rows: RowsT


@dataclass(frozen=True, slots=True)
class PaceSettings:
    """How finely time is cut.

    Attributes:
        tick_ms: Rows that become due within one tick leave together.
        horizon_ms: How far ahead of the clock rows are prepared.
    """

    tick_ms: float = 2.0
    horizon_ms: float = 1000.0


def piece_bounds(
    start: int, stop: int, offset_ms: Callable[[int], int], count_until: Callable[[int], int]
) -> Iterator[tuple[int, int]]:
    """Cuts a range of event numbers into pieces of at most `PIECE_MS` and `PIECE_ROWS`.

    Args:
        start: First event number.
        stop: First event number that no longer belongs to the range.
        offset_ms: Intended time of an event number, in ms after the start of the schedule.
        count_until: Number of events whose intended time is before a given time.

    Yields:
        Pairs (first, end) that cover the range without gaps; no pair is empty.
    """
    at = start
    while at < stop:
        end = min(max(count_until(offset_ms(at) + PIECE_MS), at + 1), at + PIECE_ROWS, stop)
        yield at, end
        at = end


def pace(
    pieces: Iterator[Piece[RowsT]],
    wall_ms: Callable[[], float],
    sleep_ms: Callable[[float], None],
    settings: PaceSettings | None = None,
) -> Iterator[RowsT]:
    """Yields rows when they are due, never early, in order, each exactly once.

    A reader that has fallen behind yields everything that is due at once: the intended times stay what they
    were, so lateness shows in the delay instead of vanishing from it.

    Args:
        pieces: Prepares the next rows each time it is asked.
        wall_ms: The clock that the intended times refer to.
        sleep_ms: Waits.
        settings: How finely time is cut.

    Yields:
        Slices of the pieces' rows. Before a wait longer than a tick comes an empty slice: Spark asks for the
        batch after next before it hands one on, so without it the last rows would wait for the next ones.
    """
    settings = settings or PaceSettings()
    ready: deque[Piece[RowsT]] = deque()
    unpushed: RowsT | None = None
    position, exhausted = 0, False
    while True:
        now = wall_ms()
        if ready and ready[0].due_ms[position] <= now:
            piece = ready[0]
            end = int(np.searchsorted(piece.due_ms, now, side="right"))
            yield piece.rows.slice(position, end - position)  # type: ignore[misc]
            unpushed, position = piece.rows, end
            if end == len(piece.due_ms):
                ready.popleft()
                position = 0
        elif not exhausted and (not ready or ready[-1].due_ms[-1] < now + settings.horizon_ms):
            following = next(pieces, None)
            exhausted = following is None
            if following is not None and len(following.due_ms):
                ready.append(following)
        elif not ready:
            return
        else:
            wait_ms = float(ready[0].due_ms[position]) - now
            if unpushed is not None and wait_ms > settings.tick_ms:
                yield unpushed.slice(0, 0)  # type: ignore[misc]
                unpushed = None
            else:
                sleep_ms(max(settings.tick_ms, wait_ms))
