"""Rows of many batches of a transaction, merged by key, that wait for the operator which they are merged for."""

from __future__ import annotations

import polars as pl

MOST_ROWS = 200_000
"""Rows that wait at most: as many as the dirty entries that a transaction may have, about 10 MB."""


class GatheredRows:
    """Frames that wait, in order."""

    def __init__(self) -> None:
        self._frames: list[pl.DataFrame] = []
        self._rows = 0

    def __bool__(self) -> bool:
        return bool(self._frames)

    @property
    def full(self) -> bool:
        """Whether no more should be added."""
        return self._rows >= MOST_ROWS

    def add(self, frame: pl.DataFrame) -> None:
        """Let rows wait."""
        self._frames.append(frame)
        self._rows += frame.height

    def take(self) -> pl.DataFrame | None:
        """All rows, which wait no longer; None if there are none.

        Frames that were merged have columns that others have not: null there means the same as their absence.
        """
        frames, self._frames, self._rows = self._frames, [], 0
        return pl.concat(frames, how="diagonal") if frames else None
