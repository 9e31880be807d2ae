"""How long records and events are under way until what came of them is committed.

::

    intended emit time ──▶ … ──▶ append to our input ──▶ taken ──▶ rows sent ──▶ commit
            └───────────────── end to end, of a sink's rows ─────────────────────┘
                                      └─────────── this stage ───────────────────┘

Of a batch some values are noted, evenly spread over it (see :mod:`towpath.distributions`); they are counted once the
transaction is committed, and forgotten where it is not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from towpath.distributions import Counts, stride
from towpath.query.plan import SCHED
from towpath.stage import columns
from towpath.stage.intake import Part
from towpath.stage.metrics import StageMetrics


class _Noted(NamedTuple):
    """Moments in ms since the epoch, each of which stands for so many rows; and where they are counted."""

    counts: Counts
    moments: npt.NDArray[np.int64]
    each: int


class Latencies:
    """The latencies of one replica.

    Args:
        metrics: of the replica.
        sinks: output topics that others than Towpath read.
    """

    def __init__(self, metrics: StageMetrics, sinks: Collection[str]) -> None:
        self._metrics = metrics
        self._sinks = sinks
        self._noted: list[_Noted] = []

    def taken(self, parts: Iterable[Part]) -> None:
        """Records were taken."""
        for part in parts:
            each = stride(len(part.messages))
            moments = columns.some_timestamps(part.messages, each)
            self._noted.append(_Noted(self._metrics.stage_latency, moments, each))

    def sent(self, topic: str, rows: pl.DataFrame) -> None:
        """Rows were sent to an output."""
        if topic in self._sinks and SCHED in rows.columns:
            each = stride(rows.height)
            moments = rows.get_column(SCHED).gather_every(each).drop_nulls().to_numpy()
            self._noted.append(_Noted(self._metrics.end_to_end.of(topic), moments, each))

    def committed(self, wall_ms: int) -> None:
        """All of them were committed just now."""
        for counts, moments, each in self._noted:
            counts.add(((wall_ms - moments) / 1000).tolist(), each)
        self._noted = []

    def drop(self) -> None:
        """None of them was."""
        self._noted = []
