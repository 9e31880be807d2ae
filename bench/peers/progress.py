"""How much of the input was processed at a moment, out of what was visible then: pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from bench.peers.sampling import Sample

START_SHARE = 0.3
"""The clock starts when this share of the events has visible results: start and warm-up are over by then."""

QUIET_SAMPLES = 2
"""Samples without anything new that make a pause: 100 ms."""

LEAST_SHARE = 0.15
"""Of the events; less than this in the window would be no measurement."""

_ROUNDING = 1e-9


@dataclass(frozen=True)
class Window:
    """From the start of the clock until everything is visible.

    Attributes:
        start: the first sample with at least the start share.
        end: the first sample with everything.
        events: that were processed in it.
        ahead: share of the events whose input had been taken when it began, but that had no visible result.
    """

    start: Sample
    end: Sample
    events: float
    ahead: float

    @property
    def seconds(self) -> float:
        """Wall time."""
        return self.end.at_s - self.start.at_s

    @property
    def cpu_s(self) -> float:
        """Processor seconds of the system."""
        return self.end.cpu_s - self.start.cpu_s

    @property
    def broker_cpu_s(self) -> float:
        """Processor seconds of the broker."""
        return self.end.broker_cpu_s - self.start.broker_cpu_s


def newly_covered(outputs: pl.DataFrame, keys: Sequence[str]) -> pl.Series:
    """Of each count, the events that no earlier output of its key had told of; 0 for a repeated one."""
    highest = pl.col("count").cum_max()
    before = highest.shift(1, fill_value=0)
    return outputs.select((highest - before).over(keys)).to_series()


def share_at(samples: Sequence[Sample], outputs: pl.DataFrame, weights: pl.Series, total: float) -> NDArray[np.float64]:
    """Share of the whole that was visible at each sample.

    Args:
        samples: moments.
        outputs: ``partition`` and ``offset`` of every output, in reading order.
        weights: what each output adds.
        total: the whole.
    """
    ends = np.array([sample.ends for sample in samples], dtype=np.int64)
    done = np.zeros(len(samples))
    frame = outputs.select("partition", "offset").with_columns(weight=weights.cast(pl.Float64))
    groups: Mapping[tuple[object, ...], pl.DataFrame] = frame.partition_by("partition", as_dict=True)
    for (partition,), rows in groups.items():
        ordered = rows.sort("offset")
        summed = np.concatenate([[0.0], np.cumsum(ordered["weight"].to_numpy())])
        below = np.searchsorted(ordered["offset"].to_numpy(), ends[:, int(str(partition))], side="left")
        done += summed[below]
    return done / total


def window(samples: Sequence[Sample], shares: NDArray[np.float64], events: int) -> Window | None:
    """The measured window; None if too little of the events lies in it.

    The clock must start when what was processed is what is visible. A system that commits rarely shows much at once,
    long after it was processed; so the clock starts at the first pause in which nothing new becomes visible, unless
    there is none.

    A system of several stages has taken more input by then than has visible results. Its first stages have done their
    work on those events, its last ones have not: each counts as half an event, as if both cost the same.
    """
    started = np.flatnonzero(shares >= START_SHARE)
    ended = np.flatnonzero(shares >= 1.0 - _ROUNDING)
    if not ended.size or started[0] >= ended[0]:
        return None
    begin, end = int(started[0]), int(ended[0])
    start = next((at for at in range(begin, end - QUIET_SAMPLES) if _quiet(shares, at)), begin)
    visible = float(shares[start])
    if visible > 1.0 - LEAST_SHARE:
        return None
    ahead = max(samples[start].consumed / events - visible, 0.0)
    return Window(samples[start], samples[end], (1.0 - visible - ahead / 2) * events, ahead)


def _quiet(shares: NDArray[np.float64], at: int) -> bool:
    return bool(shares[at + QUIET_SAMPLES] == shares[at])
