"""Ours, event by event in Faust's idiom: the program of :mod:`bench.peers.towpath.agent`."""

from __future__ import annotations

from collections.abc import Sequence

from bench.peers.model import Command, Guarantee, Job, Run, Say, Variant
from bench.peers.systems.towpath import run_command

NAME = "towpath-agent"


class TowpathAgent:
    """See :class:`bench.peers.model.System`."""

    name = NAME
    title = "Towpath, event-at-a-time agent"
    share = 0.3

    def variants(self, job: Job) -> Sequence[Variant]:
        """Both guarantees; it is compared with Faust, on counts of what Faust gets through."""
        if not job.counts or job.large:
            return []
        return [Variant(NAME, "default", guarantee) for guarantee in Guarantee]

    def unsupported(self, job: Job) -> str | None:  # noqa: ARG002
        """It can do all of them."""
        return None

    def prepare(self, say: Say) -> None:
        """It is the environment in which this runs."""

    def group(self, run: Run) -> str | None:
        """Of the agent's own stage, or of the shuffle before it."""
        return f"{run.app}.{'count' if run.job.keyed else 'count-by-auction'}"

    def command(self, run: Run) -> Command:
        """``towpath run``."""
        arguments = {"keyed": str(run.job.keyed).lower()}
        return run_command("bench.peers.towpath.agent", run, arguments)
