"""A deterministic load of NEXMark events into a real broker, from a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import numpy as np

import nexmark
from statemgr.kafka.confluent import ConfluentKafka
from statemgr.kafka.ports import TopicSpec

TICK_S = 0.02
FLUSH_LIMIT_S = 60.0
"""The last records are acknowledged within milliseconds, or when a broker that was stopped has come back."""

ABANDON_S = 1.0
"""Nobody asks any more what became of the last records."""

CREATE_LIMIT_S = 20.0


def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """Make a source topic as the load generator does."""
    admin = ConfluentKafka(bootstrap).admin()
    admin.create([TopicSpec(topic, partitions, {"message.timestamp.type": "LogAppendTime"})], 1, CREATE_LIMIT_S)
    admin.close()


class Load:
    """Event ``k`` of the stream of ``seed`` goes to partition ``k`` modulo ``partitions``, in order.

    A context manager that stops sending at its end. What was sent can be had again from :meth:`values`, since
    everything in an event, its intended emit time included, follows from seed, start time and ``k``.
    """

    def __init__(
        self, bootstrap: str, topic: str, *, partitions: int = 8, rate: int = 2000, seed: int = 0, limit: int = 2**40
    ) -> None:
        """``rate``: events a second; ``limit``: stop by itself after that many."""
        self.topic = topic
        self.partitions = partitions
        self.sent = 0
        self._rate = rate
        self._limit = limit
        self._config = nexmark.GeneratorConfig(seed=seed)
        self._producer = ConfluentKafka(bootstrap).producer(transactional_id=None, name="load")
        self._start_ms = time.time_ns() // 1_000_000
        self._stop = threading.Event()
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def values(self, start: int = 0, end: int | None = None) -> list[bytes]:
        """Events ``start`` … ``end`` (default: all that were sent)."""
        end = self.sent if end is None else end
        events: list[bytes] = []
        for first in range(start, end, nexmark.MAX_EVENTS_PER_CALL):
            last = min(end, first + nexmark.MAX_EVENTS_PER_CALL)
            events += self._generate(first, last)
        return events

    def start(self) -> Self:
        """Begin to send."""
        self._thread.start()
        return self

    def stop(self) -> int:
        """Stop sending; returns when everything sent is acknowledged.

        Returns:
            Number of events sent.
        """
        self._stop.set()
        self._thread.join(FLUSH_LIMIT_S + 5)
        assert not self._thread.is_alive(), f"the load has not ended, {self.sent} events were queued"
        if self._error is not None:
            raise AssertionError(f"the load failed after {self.sent} events: {self._error}") from self._error
        return self.sent

    def put_everywhere(self, value: bytes) -> None:
        """One more record in each partition, behind all others; the load has stopped. Not among :meth:`values`."""
        for partition in range(self.partitions):
            self._put(partition, [value])
        self._producer.flush(FLUSH_LIMIT_S)

    def finish(self) -> int:
        """Wait until ``limit`` is reached, then stop."""
        self._thread.join(self._limit / self._rate + FLUSH_LIMIT_S)
        return self.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(ABANDON_S)
        self._producer.close()

    def _run(self) -> None:
        begin = time.monotonic()
        try:
            while self.sent < self._limit and not self._stop.wait(TICK_S):
                self._send(min(self._limit, int((time.monotonic() - begin) * self._rate)))
            self._producer.flush(FLUSH_LIMIT_S)
        except BaseException as error:  # noqa: BLE001 - raised again in the test's thread by stop()
            self._error = error

    def _send(self, end: int) -> None:
        if end <= self.sent:
            return
        events = self.values(self.sent, end)
        for partition in range(self.partitions):
            first = (partition - self.sent) % self.partitions
            self._put(partition, events[first :: self.partitions])
        self.sent = end

    def _put(self, partition: int, events: Sequence[bytes]) -> None:
        if events:
            self._producer.produce_batch(self.topic, partition, [None] * len(events), events)

    def _generate(self, start: int, end: int) -> list[bytes]:
        schedule = self._start_ms + np.arange(start, end, dtype=np.int64) * 1000 // self._rate
        lines: list[bytes] = nexmark.generate_json(self._config, start, end - start, sched_ms=schedule).to_pylist()
        return lines
