"""The measure ``drain`` of one job, for every system."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import polars as pl

from bench.peers.drain import Bench, drain
from bench.peers.expected import expected
from bench.peers.model import Job, Run, System
from bench.peers.results import DRAIN

_STEP = 10_000
"""Numbers of events are rounded to this, so that systems of nearly one pace share a topic."""


@dataclass
class Draining:
    """See :class:`bench.peers.rounds.Measure`.

    Attributes:
        job: what is computed.
        scale: factor for the number of events.
    """

    job: Job
    scale: float
    name: str = DRAIN
    rehearsed: bool = False
    _answers: dict[int, pl.DataFrame] = field(default_factory=dict)

    def events(self, system: System) -> int:
        """The job's, times the system's share and the scale; no share above 1 where it would add keys."""
        share = min(system.share, 1.0) if self.job.large or self.job.alone else system.share
        return max(round(self.job.events * share * self.scale / _STEP), 1) * _STEP

    def figures(self, bench: Bench, system: System, run: Run) -> Mapping[str, Any]:
        """Preload what is not there yet, then drain."""
        source = bench.topics.preload(self.job.data, run.events, self.job.partitions, bench.say)
        if run.events not in self._answers:
            self._answers[run.events] = expected(self.job, run.events)
        return drain(bench, system, replace(run, source=source), self._answers[run.events]).as_figures()
