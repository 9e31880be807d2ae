"""Where parked rows lie, as Polars frames, until they are taken by their tickets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import groupby
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl


class _Chunk(NamedTuple):
    tickets: npt.NDArray[np.int64]
    rows: pl.DataFrame


class FrameShelf:
    """The parked rows of one task; tickets ascend."""

    def __init__(self) -> None:
        self._chunks: dict[int, _Chunk] = {}  # by the first ticket it had
        self._starts: list[int] = []

    def put(self, first_ticket: int, rows: pl.DataFrame) -> None:
        """Keep rows under ``first_ticket``, ``first_ticket + 1``, …; every ticket before is smaller."""
        if rows.height:
            tickets = np.arange(first_ticket, first_ticket + rows.height, dtype=np.int64)
            self._chunks[first_ticket] = _Chunk(tickets, rows)
            self._starts.append(first_ticket)

    def take(self, tickets: Sequence[int]) -> list[pl.DataFrame]:
        """Remove rows, and give them in the order of their (ascending) tickets, in one frame or several."""
        found = []
        for start, wanted in groupby(tickets, key=self._start_of):
            found.append(self._take(start, list(wanted)))
        self._starts = [start for start in self._starts if start in self._chunks]
        return joined(found)

    def _start_of(self, ticket: int) -> int:
        return self._starts[bisect_right(self._starts, ticket) - 1]

    def _take(self, start: int, tickets: list[int]) -> pl.DataFrame:
        chunk = self._chunks.pop(start)
        mask = np.isin(chunk.tickets, tickets, assume_unique=True)
        if not mask.all():
            self._chunks[start] = _Chunk(chunk.tickets[~mask], chunk.rows.filter(~mask))
        return chunk.rows.filter(mask)


class Earliest:
    """The least event time of the parked rows of one task, by tickets."""

    def __init__(self) -> None:
        self._time: dict[int, int] = {}
        self._order: list[tuple[int, int]] = []

    @property
    def value(self) -> int | None:
        """The least; None: there are no rows."""
        while self._order and self._order[0][1] not in self._time:
            heappop(self._order)
        return self._order[0][0] if self._order else None

    def put(self, first_ticket: int, times: pl.Series) -> None:
        """Note rows with these event times, under ``first_ticket``, ``first_ticket + 1`` and so on."""
        for ticket, time_ms in enumerate(times.to_list(), first_ticket):
            self._time[ticket] = time_ms
            heappush(self._order, (time_ms, ticket))

    def remove(self, tickets: Iterable[int]) -> None:
        """Rows that are not parked any more."""
        for ticket in tickets:
            self._time.pop(ticket, None)


def joined(frames: Iterable[pl.DataFrame]) -> list[pl.DataFrame]:
    """Fewer frames with the same rows in the same order: neighbours with the same columns become one."""
    return [pl.concat(list(run)) for _, run in groupby(frames, key=lambda frame: frame.schema)]
