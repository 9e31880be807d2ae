"""Quix Streams: one process for each core."""

from __future__ import annotations

from collections.abc import Sequence

from bench.peers.environment import ensure_environment, program_of, python_of, write_run
from bench.peers.model import Command, Guarantee, Job, Run, Say, Variant

NAME = "quix"
_BEST = {
    "producer.linger.ms": "100",
    "producer.batch.size": str(256 << 10),
    "producer.compression.type": "lz4",
    "consumer.fetch.min.bytes": str(64 << 10),
    "consumer.fetch.queue.backoff.ms": "5",
}
_LOW_LATENCY = {"commit_interval": "0.1", "producer.linger.ms": "0"}
"""Exactly once, results become visible at commits."""


class Quix:
    """See :class:`bench.peers.model.System`."""

    name = NAME
    title = "Quix Streams 3.28.1"
    share = 0.3

    def variants(self, job: Job) -> Sequence[Variant]:
        """At its defaults and at its best; its state counts event by event."""
        if job.paced:
            return [Variant(NAME, "low-latency", guarantee, _LOW_LATENCY) for guarantee in Guarantee]
        return [
            Variant(NAME, "default", Guarantee.EXACTLY_ONCE),
            *(Variant(NAME, "best", guarantee, _BEST) for guarantee in Guarantee),
        ]

    def unsupported(self, job: Job) -> str | None:
        """Its share of 10 M keys would be no 10 M keys."""
        return "at its pace, a run over 10 M keys takes more than ten minutes" if job.large else None

    def prepare(self, say: Say) -> None:
        """Its environment."""
        ensure_environment(NAME, say)

    def group(self, run: Run) -> str | None:
        """Its consumer group."""
        return run.app

    def command(self, run: Run) -> Command:
        """Two processes."""
        return Command([str(python_of(NAME)), str(program_of(NAME)), str(write_run(run))], copies=2)
