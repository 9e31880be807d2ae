"""Pathway: its engine in one process, with a thread for each core."""

from __future__ import annotations

from collections.abc import Sequence

from bench.peers.environment import ensure_environment, program_of, python_of, write_run
from bench.peers.model import Command, Guarantee, Job, Run, Say, Variant

NAME = "pathway"
_SETTINGS = {"autocommit_duration_ms": "1500", "snapshot_interval_ms": "5000", "PATHWAY_THREADS": "2"}
"""Its default for commits; the input persisted, as its guarantee needs (persisting operators needs a license key)."""


class Pathway:
    """See :class:`bench.peers.model.System`."""

    name = NAME
    title = "Pathway 0.33.0"
    share = 0.5

    def variants(self, job: Job) -> Sequence[Variant]:
        """At least once: exactly once is not in the free version."""
        if job.paced:
            settings = {**_SETTINGS, "autocommit_duration_ms": "20"}
            return [Variant(NAME, "low-latency", Guarantee.AT_LEAST_ONCE, settings)]
        return [Variant(NAME, "default", Guarantee.AT_LEAST_ONCE, _SETTINGS)]

    def unsupported(self, job: Job) -> str | None:  # noqa: ARG002
        """It can do all of them."""
        return None

    def prepare(self, say: Say) -> None:
        """Its environment."""
        ensure_environment(NAME, say)

    def group(self, run: Run) -> str | None:  # noqa: ARG002
        """Positions are in its snapshots."""
        return None

    def command(self, run: Run) -> Command:
        """One process."""
        threads = {"PATHWAY_THREADS": run.variant.settings["PATHWAY_THREADS"]}
        return Command([str(python_of(NAME)), str(program_of(NAME)), str(write_run(run))], env=threads)
