"""Bids whose keys follow Zipf's law, each with the time at which it was meant to be emitted."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from statemgr.kafka.confluent import ConfluentKafka

TICK_S = 0.005
FLUSH_LIMIT_S = 60.0
PRELOAD_BATCH = 20_000
DRAWN = 1 << 20
"""Keys drawn beforehand and used in turn: drawing costs more than sending."""


class ZipfKeys:
    """Keys 0 … count − 1; which of them are hot is shuffled, so that every partition has some.

    Attributes:
        by_rank: keys, hottest first.
    """

    def __init__(self, count: int, exponent: float, seed: int) -> None:
        chance = np.random.default_rng(seed)
        self.by_rank: NDArray[np.int64] = chance.permutation(count)
        weights = np.arange(1, count + 1, dtype=np.float64) ** -exponent
        ranks = np.searchsorted(np.cumsum(weights) / weights.sum(), chance.random(DRAWN))
        self._drawn = self.by_rank[np.minimum(ranks, count - 1)]

    def draw(self, first: int, last: int) -> list[int]:
        """Keys of the events ``first`` … ``last``."""
        return self._drawn[np.arange(first, last) % DRAWN].tolist()  # type: ignore[no-any-return]


class ZipfLoad:
    """Sends ``rate`` events a second from a thread; a context manager that stops at its end."""

    def __init__(self, bootstrap: str, topic: str, keys: ZipfKeys, *, partitions: int, rate: int) -> None:
        self.sent = 0
        self._topic = topic
        self._keys = keys
        self._partitions = partitions
        self._rate = rate
        self._producer: Any = ConfluentKafka(bootstrap).producer(transactional_id=None, name="bench-load")
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def preload(self) -> int:
        """Every key once, as fast as it goes; gives their number."""
        keys = np.sort(self._keys.by_rank).tolist()
        for number, start in enumerate(range(0, len(keys), PRELOAD_BATCH)):
            now_ms = time.time_ns() // 1_000_000
            events = [_event(key, now_ms) for key in keys[start : start + PRELOAD_BATCH]]
            self._producer.produce_batch(self._topic, number % self._partitions, [None] * len(events), events)
        self._producer.flush(FLUSH_LIMIT_S)
        return len(keys)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(FLUSH_LIMIT_S)
        self._producer.close()
        if self._error is not None:
            raise RuntimeError(f"the load failed after {self.sent} events: {self._error}") from self._error

    def _run(self) -> None:
        begin_s, begin_ms = time.monotonic(), time.time_ns() // 1_000_000
        try:
            while not self._stop.wait(TICK_S):
                self._send(int((time.monotonic() - begin_s) * self._rate), begin_ms)
            self._producer.flush(FLUSH_LIMIT_S)
        except BaseException as error:  # noqa: BLE001 - raised again at the end of the context
            self._error = error

    def _send(self, end: int, begin_ms: int) -> None:
        by_partition: list[list[bytes]] = [[] for _ in range(self._partitions)]
        for number, key in enumerate(self._keys.draw(self.sent, end), start=self.sent):
            by_partition[number % self._partitions].append(_event(key, begin_ms + number * 1000 // self._rate))
        for partition, events in enumerate(by_partition):
            if events:
                self._producer.produce_batch(self._topic, partition, [None] * len(events), events)
        self.sent = max(self.sent, end)


def _event(key: int, sched_ms: int) -> bytes:
    return b'{"auction":%d,"sched_ms":%d}' % (key, sched_ms)
