"""Events that carry their number among the events of their key, and the state that they must lead to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from confluent_kafka import Producer

from statemgr.kafka.confluent import ConfluentKafka
from statemgr.kafka.ports import TopicSpec

TICK_S = 0.01
LIMIT_S = 60.0
PRELOAD_BATCH = 50_000


def create_topics(bootstrap: str, partitions: int, *names: str, changelog: str = "") -> None:
    """Make source topics, and a compacted changelog as Faust would."""
    admin = ConfluentKafka(bootstrap).admin()
    specs = [TopicSpec(name, partitions, {}) for name in names]
    if changelog:
        specs.append(TopicSpec(changelog, partitions, {"cleanup.policy": "compact"}))
    admin.create(specs, 1, LIMIT_S)
    admin.close()


class Feed:
    """Sends events of random keys; key ``k`` goes to partition ``k`` modulo ``partitions``.

    Args:
        bootstrap: Kafka.
        topic: the source.
        keys: how many.
        partitions: of the source.
        seed: of the keys' order.

    Attributes:
        counts: key → events so far, the preloaded ones included.
        sent: events sent.
        ends: partition → end of the source.
    """

    def __init__(self, bootstrap: str, topic: str, *, keys: int, partitions: int, seed: int = 1) -> None:
        self.counts = np.zeros(keys, dtype=np.int64)
        self.sent = 0
        self.ends = dict.fromkeys(range(partitions), 0)
        self._topic = topic
        self._partitions = partitions
        self._chance = np.random.default_rng(seed)
        self._producer = Producer(
            {"bootstrap.servers": bootstrap, "linger.ms": 5, "queue.buffering.max.messages": 2_000_000}
        )
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._lost: list[str] = []

    def preload(self, changelog: str) -> None:
        """Let the changelog say that every key has had one event, as if a worker had written it."""
        keys = len(self.counts)
        for start in range(0, keys, PRELOAD_BATCH):
            for key in range(start, min(keys, start + PRELOAD_BATCH)):
                self._producer.produce(changelog, b"1", b'"%d"' % key, key % self._partitions)
            self._producer.poll(0)
        self._flush()
        self.counts += 1

    def send(self, count: int, *, timestamp_ms: int | None = None) -> None:
        """So many events, at once."""
        self._send(self._chance.integers(0, len(self.counts), count).tolist(), timestamp_ms)
        self._flush()

    def send_keys(self, keys: Sequence[int], *, timestamp_ms: int | None = None) -> None:
        """An event of each of these keys."""
        self._send(keys, timestamp_ms)
        self._flush()

    def restart_numbers(self) -> None:
        """Number events anew, as for another window."""
        self.counts[:] = 0

    def start(self, rate: int) -> Self:
        """Send so many events a second from a thread, until :meth:`stop`."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, args=(rate,), name="feed", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop sending; returns when everything sent is acknowledged."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(LIMIT_S)
            self._thread = None
        self._flush()

    def _run(self, rate: int) -> None:
        begin_s, done = time.monotonic(), 0
        while not self._stop.wait(TICK_S):
            due = int((time.monotonic() - begin_s) * rate)
            self._send(self._chance.integers(0, len(self.counts), due - done).tolist(), None)
            done = due

    def _send(self, keys: Sequence[int], timestamp_ms: int | None) -> None:
        for key in keys:
            self.counts[key] += 1
            value = json.dumps({"k": str(key), "n": int(self.counts[key])}).encode()
            partition = key % self._partitions
            options: dict[str, Any] = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
            self._producer.produce(self._topic, value, b"%d" % key, partition, on_delivery=self._delivered, **options)
            self.ends[partition] += 1
            self.sent += 1
        self._producer.poll(0)

    def _flush(self) -> None:
        left = self._producer.flush(LIMIT_S)
        assert not left and not self._lost, f"{left} events were not sent, {len(self._lost)} failed: {self._lost[:1]}"

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._lost.append(str(error))
