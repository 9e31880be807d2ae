"""Sends events at their times, from a process of its own: nothing that the benchmark does beside it makes them late."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from bench.peers.data import drawn_keys, short_bids
from bench.peers.model import PARTITIONS, Data, Run, RunFailedError
from bench.peers.places import ROOT
from statemgr.kafka.confluent import ConfluentKafka

TICK_S = 0.002
PREPARED_LIMIT_S = 120.0
_POLL_S = 0.02
_AHEAD_S = 0.5
_FLUSH_S = 60.0
_STOP_S = 10.0
_MS = 1000.0


class PacedLoad:
    """The process, seen from outside; a context manager that ends it."""

    def __init__(self, run: Run, data: Data, rate: int, priming: int) -> None:
        """``priming``: how many of the run's events are sent at once, before anything else."""
        self._directory = run.work_dir
        plan = {
            "bootstrap": run.bootstrap,
            "topic": run.source,
            "data": data,
            "events": run.events,
            "rate": rate,
            "priming": priming,
        }
        (self._directory / "load.json").write_text(json.dumps(plan), encoding="utf-8")
        self._process: subprocess.Popen[bytes]

    def __enter__(self) -> Self:
        with (self._directory / "load.txt").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.peers.paced", str(self._directory)],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._await("prepared")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def begin(self) -> float:
        """Let it send; gives the time at which the first event behind the priming ones is meant to be sent."""
        begin_s = time.time() + _AHEAD_S
        _write(self._directory / "begin", {"begin_s": begin_s})
        return begin_s

    def running(self) -> bool:
        """Whether it still sends.

        Raises:
            RunFailedError: it has failed.
        """
        status = self._process.poll()
        if status:
            raise RunFailedError(f"the load failed: {self._said()}")
        return status is None

    def delays(self) -> dict[str, float]:
        """How late it was itself, of the second half of what it sent."""
        found: dict[str, float] = json.loads((self._directory / "delays").read_text(encoding="utf-8"))
        return found

    def _await(self, name: str) -> None:
        deadline = time.monotonic() + PREPARED_LIMIT_S
        while not (self._directory / name).exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RunFailedError(f"the load did not start: {self._said()}")
            time.sleep(_POLL_S)

    def _said(self) -> str:
        return (self._directory / "load.txt").read_text(encoding="utf-8", errors="replace").strip()[-500:]


@dataclass(frozen=True)
class _Prepared:
    """All events, encoded: for each partition their keys, values and numbers."""

    keys: list[list[bytes]]
    values: list[list[bytes]]
    numbers: list[Any]


def main(directory: Path) -> None:
    """The process."""
    plan = json.loads((directory / "load.json").read_text(encoding="utf-8"))
    prepared = _prepared(Data(plan["data"]), plan["events"])
    producer: Any = ConfluentKafka(plan["bootstrap"]).producer(transactional_id=None, name="bench-paced")
    sending = _Sending(producer, plan["topic"], prepared)
    sending.until(plan["priming"])
    producer.flush(_FLUSH_S)
    _write(directory / "prepared", {})
    while not (directory / "begin").exists():
        time.sleep(_POLL_S)
    begin_s = json.loads((directory / "begin").read_text(encoding="utf-8"))["begin_s"]
    delays = _send(sending, begin_s, plan["rate"], plan["priming"], plan["events"])
    producer.flush(_FLUSH_S)
    later = np.array(delays[len(delays) // 2 :]) * _MS
    named = {"own_p50_ms": 50, "own_p99_ms": 99}
    _write(directory / "delays", {name: round(float(np.percentile(later, at)), 2) for name, at in named.items()})


def _prepared(data: Data, events: int) -> _Prepared:
    chunk = short_bids(drawn_keys(data, events), 0)
    if chunk.keys is None:
        raise ValueError(f"{data} has no keys: its events would not keep their order")
    rows = [np.flatnonzero(chunk.partitions == number) for number in range(PARTITIONS)]
    keys = [chunk.keys.take(each).to_pylist() for each in rows]
    return _Prepared(keys, [chunk.values.take(each).to_pylist() for each in rows], rows)


class _Sending:
    """Sends the events in their order."""

    def __init__(self, producer: Any, topic: str, prepared: _Prepared) -> None:
        self._producer = producer
        self._topic = topic
        self._prepared = prepared
        self._at = [0] * PARTITIONS

    def until(self, number: int) -> None:
        """Send all events before that one that were not sent yet."""
        for partition, begin in enumerate(self._at):
            end = int(np.searchsorted(self._prepared.numbers[partition], number))
            if end > begin:
                keys, values = self._prepared.keys[partition][begin:end], self._prepared.values[partition][begin:end]
                self._producer.produce_batch(self._topic, partition, keys, values)
                self._at[partition] = end


def _send(sending: _Sending, begin_s: float, rate: float, sent: int, events: int) -> list[float]:
    """Send the rest at its times; gives, for each tick, how late the oldest event of it was."""
    begin_s -= sent / rate
    delays: list[float] = []
    while sent < events:
        due = min(int((time.time() - begin_s) * rate) + 1, events)
        if due > sent:
            sending.until(due)
            delays.append(time.time() - (begin_s + sent / rate))
            sent = due
        time.sleep(TICK_S)
    return delays


def _write(path: Path, content: dict[str, float]) -> None:
    """All at once, for a reader that waits for it."""
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(content), encoding="utf-8")
    beside.rename(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
