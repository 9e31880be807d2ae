"""Whose turn it is to do something outside of Kafka, and for how long."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import polars as pl

from statemgr.clock import Clock
from towpath.stage.chain import OperatorChain

DELIVERY_S = 0.2
"""Longest time in a turn, though one thing is done in any case: a file of 100,000 rows takes about as long, and no turn
brings more rows than that."""


class Deliveries:
    """Lets the operators of a replica deliver for one task after the other, by turns."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last = -1

    def of(
        self, chain: OperatorChain, partitions: Collection[int], now_s: float
    ) -> Iterator[tuple[int, list[tuple[str, pl.DataFrame]]]]:
        """Do what is to be done for these tasks, as far as there is time; gives task and rows each time."""
        began_s = self._clock.monotonic_s()
        for partition in sorted(partitions, key=lambda each: (each <= self._last, each)):
            while chain.ready(partition, now_s):
                self._last = partition
                yield partition, chain.deliver(partition, now_s)
                if self._clock.monotonic_s() - began_s >= DELIVERY_S:
                    return
