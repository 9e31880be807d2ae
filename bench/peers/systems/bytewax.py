"""Bytewax: a cluster with one process for each core, with its recovery store."""

from __future__ import annotations

import socket
from collections.abc import Sequence

from bench.peers.environment import ensure_environment, program_of, python_of, write_run
from bench.peers.model import Command, Guarantee, Job, Run, Say, Variant

NAME = "bytewax"
_PROCESSES = 2
_SETTINGS = {"batch_size": "1000", "snapshot_interval_s": "10", "recovery_partitions": "2"}
"""Its defaults; a recovery store is what its guarantee needs."""


class Bytewax:
    """See :class:`bench.peers.model.System`."""

    name = NAME
    title = "Bytewax 0.21.1"
    share = 0.5

    def variants(self, job: Job) -> Sequence[Variant]:  # noqa: ARG002
        """Its Kafka sink knows at-least-once alone; its state counts event by event."""
        return [Variant(NAME, "default", Guarantee.AT_LEAST_ONCE, _SETTINGS)]

    def unsupported(self, job: Job) -> str | None:
        """Its share of 10 M keys would be no 10 M keys."""
        return "at its pace, a run over 10 M keys takes more than ten minutes" if job.large else None

    def prepare(self, say: Say) -> None:
        """Its environment."""
        ensure_environment(NAME, say)

    def group(self, run: Run) -> str | None:  # noqa: ARG002
        """Positions are in its recovery store."""
        return None

    def command(self, run: Run) -> Command:
        """Two processes that know each other's addresses."""
        settings = {**run.variant.settings, "addresses": ",".join(_free_addresses(_PROCESSES))}
        return Command(
            [str(python_of(NAME)), str(program_of(NAME)), str(write_run(run.with_settings(settings)))],
            copies=_PROCESSES,
        )


def _free_addresses(count: int) -> list[str]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [f"127.0.0.1:{probe.getsockname()[1]}" for probe in probes]
    finally:
        for probe in probes:
            probe.close()
