"""Ours: the queries of :mod:`bench.peers.towpath.job`."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from bench.peers.jobs import EACH_JOB
from bench.peers.model import Command, Guarantee, Job, Run, Say, Variant
from bench.peers.places import ROOT
from towpath.launch.allocator import with_allocator

NAME = "towpath"
_BEST = {"static": "true", "commit_interval_ms": "1000"}
"""Without coordinator and state managers, which only a change of size needs; as long commits as the others' best."""


class Towpath:
    """See :class:`bench.peers.model.System`."""

    name = NAME
    title = "Towpath, tcmalloc" if "LD_PRELOAD" in with_allocator(os.environ) else "Towpath"
    share = 3.0

    def variants(self, job: Job) -> Sequence[Variant]:
        """At its defaults, with coordinator and state managers; and, for throughput, exactly once, without those."""
        if job.alone:
            return [Variant(NAME, "default", Guarantee.EXACTLY_ONCE)]
        found = [Variant(NAME, "default", guarantee) for guarantee in Guarantee]
        if not job.paced:
            found.append(Variant(NAME, "best", Guarantee.EXACTLY_ONCE, _BEST))
        if job.name == EACH_JOB:
            found.append(Variant(NAME, "each", Guarantee.EXACTLY_ONCE, {"emit": "each"}))
        return found

    def unsupported(self, job: Job) -> str | None:  # noqa: ARG002
        """It can do all of them."""
        return None

    def prepare(self, say: Say) -> None:
        """It is the environment in which this runs."""

    def group(self, run: Run) -> str | None:
        """Of the stage that reads the source."""
        return f"{run.app}.source"

    def command(self, run: Run) -> Command:
        """``towpath run``, with two replicas where one stage is all there is: one for each core."""
        arguments = {
            "job": run.job.program,
            "keyed": str(run.job.keyed).lower(),
            "emit": run.variant.settings.get("emit", "batch"),
            "replicas": "1" if run.job.shuffles or run.job.alone else "2",
            "partitions": str(run.job.partitions),
        }
        return run_command("bench.peers.towpath.job", run, arguments)


def run_command(query: str, run: Run, arguments: Mapping[str, str]) -> Command:
    """``towpath run`` of a query that is told its name and topics, with the settings of a run."""
    return query_command(query, run, {"app": run.app, "source": run.source, "sink": run.sink, **arguments})


def query_command(query: str, run: Run, arguments: Mapping[str, str]) -> Command:
    """``towpath run`` of any query with the settings of a run."""
    settings = {name: value for name, value in run.variant.settings.items() if name != "emit"}
    static = ["--static"] if settings.pop("static", "") == "true" else ["--coordinator-port", "0"]
    return Command(
        [
            *(sys.executable, "-m", "towpath.cli", "run", query, *static),
            *("--bootstrap", run.bootstrap, "--guarantee", str(run.variant.guarantee)),
            *("--state-dir", str(run.work_dir / "state"), "--run-dir", str(run.work_dir / "run")),
            *(part for name, value in arguments.items() for part in ("--set", f"{name}={value}")),
            *(part for name, value in settings.items() for part in ("-o", f"{name}={value}")),
        ],
        cwd=ROOT,
    )
