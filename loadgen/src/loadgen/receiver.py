"""The receiver: a process of its own that stamps when a read_committed reader has each record.

It is a process, not a thread of the job, so that a busy interpreter over there does not make records look late.
It ends on SIGTERM, or when the process that started it closes its standard input, however that process ends.
"""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaException, Message, TopicPartition

from loadgen.cluster import Brokers, Cluster, client_settings, cluster_of
from loadgen.errors import JobError, TopicError
from loadgen.receipts import ReceiptWriter, compact
from loadgen.topics import BOUNCE_S, Offsets, end_offsets

__all__ = ["ReceiverProcess", "receive"]

FLUSH_S = 0.5
"""How often receipts become readable; a file of some hundred rows."""

DRAIN_RECORDS = 10_000
"""Records taken at once after the first; at 10 k records/s a fetch brings about a hundred."""

POLL_S = 0.25
"""Longest wait for a record before looking whether to stop or flush."""

DRAIN_S = 5.0
"""For taking what was committed before the receiver was told to stop: milliseconds unless the machine is starved."""

READY_TIMEOUT_S = 30.0
"""For a receiver to be connected: Python's start and one metadata request, 0.5 s; on a starved machine ten times."""

READY_FILE = "ready.json"


def receive(
    bootstrap: Brokers,
    start: Mapping[str, Offsets],
    directory: Path,
    stop: Callable[[], bool],
    wall_s: Callable[[], float] = time.time,
) -> int:
    """Stamps records until told to stop, and then those that had been committed by that moment.

    Args:
        bootstrap: The cluster.
        start: Topic → partition → first offset.
        directory: Where the receipts go.
        stop: Asked several times a second.
        wall_s: The clock of the stamps, seconds since the Unix epoch.

    Returns:
        Number of records received.
    """
    writer = ReceiptWriter(directory)
    consumer = Consumer(_config(bootstrap))
    assigned = [TopicPartition(topic, p, offset) for topic, at in start.items() for p, offset in at.items()]
    consumer.assign(assigned)
    _connect(consumer, assigned)
    since_ms = wall_s() * 1000
    (directory / READY_FILE).write_text(json.dumps({"since_ms": since_ms}), encoding="utf-8")
    total, flushed = 0, time.monotonic()
    ends: Mapping[str, Offsets] | None = None
    deadline = math.inf
    try:
        while ends is None or (_is_behind(consumer, ends) and time.monotonic() < deadline):
            total += _take(consumer, writer, since_ms, wall_s)
            if time.monotonic() - flushed >= FLUSH_S:
                writer.flush()
                flushed = time.monotonic()
            if ends is None and stop():
                ends = {topic: end_offsets(bootstrap, topic, committed=True, patience_s=BOUNCE_S) for topic in start}
                deadline = time.monotonic() + DRAIN_S
    finally:
        writer.flush()
        consumer.close()
    return total


def _take(consumer: Consumer, writer: ReceiptWriter, since_ms: float, wall_s: Callable[[], float]) -> int:
    """Waits for a record, and stamps it and all that came with it."""
    first = consumer.poll(POLL_S)
    if first is None:
        return 0
    arrived = wall_s() * 1000
    rest = consumer.consume(DRAIN_RECORDS, timeout=0)
    drained = wall_s() * 1000
    total = 0
    for messages, at in (([first], arrived), (rest, drained)):
        found = [_position(message) for message in messages if message.error() is None]
        writer.add(compact(found, at, since_ms))
        total += len(found)
    return total


def _connect(consumer: Consumer, assigned: list[TopicPartition]) -> None:
    """Waits for the broker's first answer; a topic that was just made has no leader for a moment.

    Raises:
        TopicError: There was no answer in time.
    """
    deadline = time.monotonic() + READY_TIMEOUT_S
    for partition in assigned[:1]:
        while True:
            try:
                consumer.get_watermark_offsets(partition, timeout=READY_TIMEOUT_S)
                break
            except KafkaException as error:
                if time.monotonic() > deadline:
                    raise TopicError(f"no offsets of {partition.topic}: {error.args[0].str()}") from error
                time.sleep(0.1)


def _is_behind(consumer: Consumer, ends: Mapping[str, Offsets]) -> bool:
    """Whether a committed record before the given ends has not been taken; positions pass markers as well."""
    asked = [TopicPartition(topic, p) for topic, at in ends.items() for p, end in at.items() if end > 0]
    return any(at.offset < ends[at.topic][at.partition] for at in consumer.position(asked))


def _position(message: Message) -> tuple[str, int, int]:
    return message.topic(), message.partition(), message.offset()  # type: ignore[return-value]


def _config(bootstrap: Brokers) -> dict[str, Any]:
    return client_settings(
        bootstrap,
        {
            "group.id": "towpath-latency-receiver",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            "fetch.queue.backoff.ms": 5,
        },
    )


class ReceiverProcess:
    """Runs `receive` in a child process, as a context manager."""

    def __init__(self, bootstrap: Brokers, start: Mapping[str, Offsets], directory: Path) -> None:
        cluster = cluster_of(bootstrap)
        config = None if cluster.config is None else str(cluster.config)
        self._arguments = json.dumps(
            {"bootstrap": cluster.bootstrap, "config": config, "start": start, "directory": str(directory)}
        )
        self._directory = directory

    def __enter__(self) -> ReceiverProcess:
        """Starts it, and waits until it is connected.

        Raises:
            JobError: It ended, or was not connected in time.
        """
        ready = self._directory / READY_FILE
        self._directory.mkdir(parents=True, exist_ok=True)
        ready.unlink(missing_ok=True)
        command = [sys.executable, "-m", "loadgen.receiver", self._arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE)  # noqa: S603 - this program
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not ready.is_file():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self._end()
                raise JobError("the receiver of the latency job did not start; is the broker reachable?")
            time.sleep(0.05)
        return self

    def __exit__(self, *exc: object) -> None:
        """Ends it; its last receipts are written."""
        self._end()

    def _end(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            self._process.wait(timeout=2 * DRAIN_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _main() -> None:
    arguments = json.loads(sys.argv[1])
    start = {topic: {int(p): offset for p, offset in at.items()} for topic, at in arguments["start"].items()}
    stopped = threading.Event()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())

    def until_closed() -> None:
        sys.stdin.buffer.read()
        stopped.set()

    threading.Thread(target=until_closed, name="parent", daemon=True).start()
    config = None if arguments["config"] is None else Path(arguments["config"])
    receive(Cluster(arguments["bootstrap"], config), start, Path(arguments["directory"]), stopped.is_set)


if __name__ == "__main__":
    _main()
