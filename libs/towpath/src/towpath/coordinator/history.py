"""What the stages did in the last minutes, by what their replicas say of themselves: for the page, nothing else.

::

    heartbeats (totals since a replica began) ─▶ differences ─▶ one point a second and stage ─▶ the last 15 minutes

Pure, and by no means exact: what a replica did before it was first heard, or after it was last, is not there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from operator import add

from pydantic import Field

from towpath.coordinator import views
from towpath.coordinator.facts import Facts, StageFacts
from towpath.coordinator.messages import Heartbeat, Message, ReplicaFigures
from towpath.distributions import BOUNDS_S, quantile, summed

POINT_S = 1.0
"""Between two points."""

KEPT_S = 900.0
"""How far back points go: 900 of about 200 bytes for each stage."""

LATENCY_S = 10.0
"""Over so long the quantiles of a point are taken: at ten batches a second, 6,400 values."""

_MOST = 2**50
"""No figure is above it: what a million rows a second come to in 35 years."""


class Point(Message):
    """A stage in one second.

    Attributes:
        at_ms: end of the second, ms since the epoch.
        records: Kafka records read, a second.
        rows: rows decoded from them, a second.
        output_rows: rows written, a second.
        lag: input offsets not read yet.
        committed_lag: input offsets not committed yet.
        p50_ms: median of the time from a record's append to its commit, over the last ten seconds; None: no record.
        p99_ms: the 99th percentile of it.
        end_to_end_p50_ms: median of the time from an event's intended emit time to the commit of a sink's row.
        end_to_end_p99_ms: the 99th percentile of it.
    """

    at_ms: int
    records: float
    rows: float
    output_rows: float
    lag: int
    committed_lag: int
    p50_ms: float | None = None
    p99_ms: float | None = None
    end_to_end_p50_ms: float | None = None
    end_to_end_p99_ms: float | None = None


class StageHistory(Message):
    """A stage's points, oldest first."""

    stage: str
    points: list[Point] = Field(default_factory=list)


class History:
    """Keeps it.

    Args:
        stages: names of the stages.
    """

    def __init__(self, stages: Iterable[str]) -> None:
        self._stages = {stage: _Stage() for stage in stages}
        self._looked_s: float | None = None

    def hear(self, stage: str, replica: str, beat: Heartbeat) -> None:
        """Take what a replica says of itself."""
        if beat.figures is not None and _is_sound(beat.figures):
            self._stages[stage].hear(replica, beat.incarnation, beat.figures)

    def look(self, facts: Facts, wall_ms: int) -> None:
        """Close the second if it is over; to be called every turn."""
        if self._looked_s is None:
            self._looked_s = facts.now_s
        passed_s = facts.now_s - self._looked_s
        if passed_s < POINT_S:
            return
        self._looked_s = facts.now_s
        for name, stage in self._stages.items():
            stage.close(facts, facts.stages[name], passed_s, wall_ms)

    def since(self, at_ms: int) -> list[StageHistory]:
        """Points of all stages that are newer than a moment, in ms since the epoch."""
        return [
            StageHistory(stage=name, points=[point for point in stage.points if point.at_ms > at_ms])
            for name, stage in self._stages.items()
        ]


class _Stage:
    """One stage: what has come since the last point, and the points."""

    def __init__(self) -> None:
        self.points: deque[Point] = deque(maxlen=int(KEPT_S / POINT_S))
        self._before: dict[str, tuple[str, ReplicaFigures]] = {}
        self._sums = [0, 0, 0]
        self._latency = _Recent()
        self._end_to_end = _Recent()

    def hear(self, replica: str, incarnation: str, now: ReplicaFigures) -> None:
        """Add what a replica has done since it was heard last; of a new life nothing is known to compare with."""
        life, before = self._before.get(replica, ("", now))
        self._before[replica] = incarnation, now
        if life == incarnation:
            self._sums = list(map(add, self._sums, _rises(_totals(now), _totals(before))))
            self._latency.add(now.stage_latency, before.stage_latency)
            self._end_to_end.add(now.end_to_end, before.end_to_end)

    def close(self, facts: Facts, stage: StageFacts, passed_s: float, wall_ms: int) -> None:
        """Make a point of what has come."""
        records, rows, output_rows = (round(total / passed_s, 1) for total in self._sums)
        self._sums = [0, 0, 0]
        self._before = {name: said for name, said in self._before.items() if (stage.name, name) in facts.fleet.replicas}
        lag = views.stage_lag(facts, stage)
        p50_ms, p99_ms = self._latency.close()
        end_to_end_p50_ms, end_to_end_p99_ms = self._end_to_end.close()
        self.points.append(
            Point(
                at_ms=wall_ms,
                records=records,
                rows=rows,
                output_rows=output_rows,
                lag=lag.read,
                committed_lag=lag.committed,
                p50_ms=p50_ms,
                p99_ms=p99_ms,
                end_to_end_p50_ms=end_to_end_p50_ms,
                end_to_end_p99_ms=end_to_end_p99_ms,
            )
        )


class _Recent:
    """Counts of a latency's buckets: those of the present second, and of the seconds before it."""

    def __init__(self) -> None:
        self._now = summed(())
        self._seconds: deque[list[int]] = deque(maxlen=int(LATENCY_S / POINT_S))

    def add(self, now: Sequence[int], before: Sequence[int]) -> None:
        self._now = summed((self._now, _rises(now, before)))

    def close(self) -> tuple[float | None, float | None]:
        """The second is over; gives median and 99th percentile in ms, lately."""
        self._seconds.append(self._now)
        self._now = summed(())
        counts = summed(self._seconds)
        p50_s, p99_s = quantile(counts, 0.5), quantile(counts, 0.99)
        return (None if p50_s is None else round(p50_s * 1000, 1), None if p99_s is None else round(p99_s * 1000, 1))


def _rises(now: Sequence[int], before: Sequence[int]) -> list[int]:
    """By how much each figure has risen; one that has fallen counts for nothing."""
    return [max(new - old, 0) for new, old in zip(now, before, strict=True)]


def _totals(figures: ReplicaFigures) -> list[int]:
    return [figures.records, figures.rows, figures.output_rows]


def _is_sound(figures: ReplicaFigures) -> bool:
    """Whether it can be reckoned with; a replica of another version may have other buckets."""
    lists = (figures.stage_latency, figures.end_to_end)
    numbers = (figures.records, figures.rows, figures.output_rows, *figures.stage_latency, *figures.end_to_end)
    return all(len(each) == len(BOUNDS_S) + 1 for each in lists) and all(0 <= each < _MOST for each in numbers)
