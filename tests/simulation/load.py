"""The input of a run: decided by the seed before anything happens, written bit by bit."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.simulation.rows import IDLE, Record, Row

OUT_OF_ORDER_MS = 40
"""How far a row's event time may lie before its upstream's newest; marks stay behind by as much, mostly."""


MOST_KEYS = 9
"""Most keys of a partition's rows."""

BURST_S = 0.4
"""Length of a burst: from the begin of what happens until its effects are over, mostly."""


@dataclass(frozen=True)
class Planned:
    """One record, when it is written, and where."""

    at_s: float
    partition: int
    record: Record


def plan_load(
    rng: random.Random, partitions: int, records: int, until_s: float, busy_s: Sequence[float]
) -> list[Planned]:
    """The records of a run in order of time; many come when something else happens too.

    Some partitions are left idle for half of the run; of the two upstream tasks one falls silent now and then, with
    and without saying so.
    """
    writers = [_Writer(rng, partition) for partition in range(partitions)]
    idle = {partition for partition in range(partitions) if rng.random() < 0.2}
    moments = sorted(_moment(rng, until_s, busy_s) for _ in range(records))
    planned = []
    for at_s in moments:
        awake = [each for each in writers if each.partition not in idle or at_s > until_s / 2]
        if awake:
            writer = rng.choice(awake)
            planned.append(Planned(at_s, writer.partition, writer.next()))
    return planned + [
        Planned(until_s, writer.partition, record) for writer in writers for record in writer.last_records()
    ]


def _moment(rng: random.Random, until_s: float, busy_s: Sequence[float]) -> float:
    if rng.random() < 0.5 or not busy_s:
        return rng.random() * until_s
    return min(until_s, rng.choice(busy_s) + rng.random() * BURST_S)


class _Writer:
    """Makes the records of one partition."""

    def __init__(self, rng: random.Random, partition: int) -> None:
        self.partition = partition
        self._rng = rng
        self._keys = [f"k{index}" for index in range(rng.randint(3, MOST_KEYS))]
        self._now_ms = {"a": 1000, "b": 1000}
        self._marks = {"a": 0, "b": 0}
        self._silent: str | None = None

    def next(self) -> Record:
        """The next record."""
        rng = self._rng
        if rng.random() < 0.1:
            self._silent = rng.choice(["a", "b", None])
        upstream = rng.choice("ab")
        if upstream == self._silent:
            upstream = "b" if upstream == "a" else "a"
        if rng.random() < 0.06:
            return Record(upstream, IDLE, ())
        return self._with_rows(upstream, rng.choice((1, 1, 2, 3, 5)))

    def last_records(self) -> list[Record]:
        """Both upstream tasks end: every row before is below their marks."""
        end = max(self._now_ms.values()) + 1000
        return [Record(upstream, end, ()) for upstream in "ab"]

    def _with_rows(self, upstream: str, count: int) -> Record:
        rng = self._rng
        self._now_ms[upstream] += rng.randrange(30)
        now = self._now_ms[upstream]
        rows = tuple(self._row(now) for _ in range(count))
        self._marks[upstream] = max(self._marks[upstream], now - rng.randrange(2 * OUT_OF_ORDER_MS))
        return Record(upstream, self._marks[upstream], rows)

    def _row(self, now_ms: int) -> Row:
        rng = self._rng
        key = self._keys[min(rng.randrange(len(self._keys)), rng.randrange(len(self._keys)))]
        return Row(key, rng.random() < 0.15, max(0, now_ms - rng.randrange(OUT_OF_ORDER_MS)))
