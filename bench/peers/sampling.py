"""While a system works: what is visible in its sink, what it has used, over time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from bench.peers.tree import ProcessTree

INTERVAL_S = 0.05
"""Between two samples; each takes about 2 ms of this process and a request of the broker."""

RSS_EVERY = 10
"""Samples between two looks at memory."""

CONSUMED_EVERY = 4
"""Samples between two looks at the committed input offsets."""


@dataclass(frozen=True)
class Sample:
    """A moment.

    Attributes:
        at_s: monotonic time.
        cpu_s: processor seconds of the system so far.
        broker_cpu_s: of the broker so far.
        ends: per partition of the sink, the offset up to which a read_committed reader gets.
        consumed: input records that the system has taken by its own committed offsets; 0 if it tells of none.
    """

    at_s: float
    cpu_s: float
    broker_cpu_s: float
    ends: tuple[int, ...]
    consumed: int = 0


@dataclass(frozen=True)
class Memory:
    """Resident memory of the tree, and of its largest process, at a moment; bytes."""

    at_s: float
    tree: int
    largest: int


class Sampler:
    """Samples from a thread; a context manager that stops at its end."""

    def __init__(
        self, tree: ProcessTree, broker: ProcessTree, ends: Callable[[], list[int]], consumed: Callable[[], int]
    ) -> None:
        self.samples: list[Sample] = []
        self.memory: list[Memory] = []
        self._tree = tree
        self._broker = broker
        self._ends = ends
        self._consumed = consumed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def idle_s(self) -> float:
        """For how long nothing new has become visible; 0 before anything has."""
        if not self.samples or not any(self.samples[-1].ends):
            return 0.0
        newest = self.samples[-1]
        for sample in reversed(self.samples):
            if sample.ends != newest.ends:
                return newest.at_s - sample.at_s
        return 0.0

    def _run(self) -> None:
        number = consumed = 0
        while not self._stop.is_set():
            begin_s = time.monotonic()
            ends = tuple(self._ends())
            if number % CONSUMED_EVERY == 0:
                consumed = self._consumed()
            used = self._tree.cpu_s(), self._broker.cpu_s()
            self.samples.append(Sample(time.monotonic(), *used, ends, consumed))
            if number % RSS_EVERY == 0:
                sizes = self._tree.rss_bytes()
                if sizes:
                    self.memory.append(Memory(time.monotonic(), sum(sizes), sizes[0]))
            number += 1
            self._stop.wait(max(INTERVAL_S - (time.monotonic() - begin_s), 0.0))
