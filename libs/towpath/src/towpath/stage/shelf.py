"""Where parked rows lie, as Polars frames, until they are taken by their tickets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
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


def joined(frames: Iterable[pl.DataFrame]) -> list[pl.DataFrame]:
    """Fewer frames with the same rows in the same order: neighbours with the same columns become one."""
    return [pl.concat(list(run)) for _, run in groupby(frames, key=lambda frame: frame.schema)]
