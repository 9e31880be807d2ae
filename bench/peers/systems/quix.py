"""Quix Streams: one process for each core."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
_SETS: Mapping[str, Mapping[str, str]] = {"default": {}, "best": _BEST}


class Quix:
    """See :class:`bench.peers.model.System`."""

    name = NAME
    title = "Quix Streams 3.28.1"
    share = 0.3

    def variants(self) -> Sequence[Variant]:
        """Both guarantees, at its defaults and with larger batches; its state counts event by event."""
        return [
            Variant(NAME, setting, guarantee, settings, each=True)
            for guarantee in Guarantee
            for setting, settings in _SETS.items()
        ]

    def unsupported(self, job: Job, variant: Variant) -> str | None:  # noqa: ARG002
        """Its share of 10 M keys would be no 10 M keys."""
        if job.name.startswith("count-10m"):
            return "at its pace, a run over 10 M keys takes more than ten minutes"
        return None

    def prepare(self, say: Say) -> None:
        """Its environment."""
        ensure_environment(NAME, say)

    def group(self, run: Run) -> str | None:
        """Its consumer group."""
        return run.app

    def command(self, run: Run) -> Command:
        """Two processes."""
        return Command([str(python_of(NAME)), str(program_of(NAME)), str(write_run(run))], copies=2)
