"""How long an event takes until its result is visible, at a fixed rate, from when it was meant to be sent."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from bench.peers.data import drawn_keys
from bench.peers.drain import Bench
from bench.peers.jobs import LATENCY_JOB
from bench.peers.launch import Launched
from bench.peers.model import Job, Run, RunFailedError, System
from bench.peers.outputs import parsed
from bench.peers.paced import PacedLoad
from bench.peers.results import latency_measure
from bench.peers.topics import Reader
from bench.peers.visible import latencies_s, percentiles_ms

PRIMING = 200
"""Events that are there when a system starts; the load begins when the first result of them is visible."""

START_LIMIT_S = 180.0
"""From the start of a system to its first visible result: twenty seconds are usual for the slowest here."""

WARM_S = 20.0
"""Of load that does not count: first commits, code that is compiled."""

SILENT_S = 45.0
"""Longest wait for a further result once the load has ended: more than any commit interval here."""

FIELDS: dict[str, pl.DataType] = {"auction": pl.Int64(), "count": pl.Int64()}

POLL_S = 0.002
"""The reader's: it makes results up to that much later."""


@dataclass(frozen=True)
class Latency:
    """See :class:`bench.peers.rounds.Measure`.

    Attributes:
        rate: events per second.
        seconds: of load that count.
    """

    rate: int
    seconds: float
    job: Job = LATENCY_JOB
    rehearsed: bool = True
    """A broker needs about a minute until its compiler has done with it, and takes a core until then."""

    @property
    def name(self) -> str:
        """With the rate in it."""
        return latency_measure(self.rate)

    def events(self, system: System) -> int:  # noqa: ARG002
        """All get the same."""
        return PRIMING + round(self.rate * (WARM_S + self.seconds))

    def figures(self, bench: Bench, system: System, run: Run) -> Mapping[str, Any]:
        """Start the system and the load; follow what becomes visible.

        Raises:
            RunFailedError: the system ended, or some results never became visible.
        """
        bench.topics.create(run.source)
        bench.topics.create(run.sink)
        with (
            Reader(bench.topics.bootstrap, run.sink) as reader,
            PacedLoad(run, self.job.data, self.rate, PRIMING) as load,
            Launched(run, system.command(run)) as launched,
        ):
            seen = Seen(reader)
            seen.await_first(launched)
            begin_s = load.begin()
            used = _Used(launched, begin_s + WARM_S)
            while load.running():
                launched.require_alive()
                used.look()
                seen.take()
            cores = used.cores()
            seen.finish(run.events)
        keys = drawn_keys(self.job.data, run.events)
        found = latencies_s(keys, begin_s - PRIMING / self.rate, self.rate, seen.outputs())
        return _judged(found[PRIMING + round(WARM_S * self.rate) :]) | load.delays() | {"cpu_cores": cores}


class Seen:
    """What has become visible, and when."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._batches: list[tuple[float, list[Any]]] = []

    def take(self) -> bool:
        """Take what is there; tells whether there was anything."""
        messages = self._reader.now(POLL_S)
        if messages:
            self._batches.append((time.time(), messages))
        return bool(messages)

    def await_first(self, launched: Launched) -> None:
        """Wait until the system shows its first result.

        Raises:
            RunFailedError: it has ended, or shows none.
        """
        deadline = time.monotonic() + START_LIMIT_S
        while not self.take():
            launched.require_alive()
            if time.monotonic() > deadline:
                raise RunFailedError(f"no result within {START_LIMIT_S:.0f} s: {launched.last_lines()}")

    def finish(self, events: int) -> None:
        """Go on until every event has a result, or nothing comes any more."""
        silent_since = looked = time.monotonic()
        while time.monotonic() - silent_since < SILENT_S:
            if self.take():
                silent_since = time.monotonic()
            elif time.monotonic() - looked > 1.0:
                looked = time.monotonic()
                latest = self.outputs().group_by("auction").agg(pl.col("count").max())
                if int(latest["count"].sum() or 0) >= events:
                    return

    def outputs(self) -> pl.DataFrame:
        """Auction, count and time of every output."""
        parts = [
            parsed(messages, FIELDS).select("auction", "count", visible_s=pl.lit(at_s))
            for at_s, messages in self._batches
        ]
        empty = pl.DataFrame(schema={**FIELDS, "visible_s": pl.Float64})
        return pl.concat([empty, *parts])


class _Used:
    """Processor time from a moment on."""

    def __init__(self, launched: Launched, from_s: float) -> None:
        self._launched = launched
        self._from_s = from_s
        self._before: tuple[float, float] | None = None

    def look(self) -> None:
        if self._before is None and time.time() >= self._from_s:
            self._before = time.monotonic(), self._launched.tree.cpu_s()

    def cores(self) -> float:
        """How many were busy on average."""
        if self._before is None:
            return 0.0
        at_s, cpu_s = self._before
        return (self._launched.tree.cpu_s() - cpu_s) / (time.monotonic() - at_s)


def _judged(found: Any) -> dict[str, Any]:
    missing = int(np.isinf(found).sum())
    if missing:
        raise RunFailedError(
            f"{missing:,} of {found.size:,} events had no visible result {SILENT_S:.0f} s after the end"
        )
    return percentiles_ms(found)
