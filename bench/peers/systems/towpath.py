"""Ours: the queries of :mod:`bench.peers.towpath.job`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from bench.peers.model import Command, Guarantee, Job, Run, Say, Variant
from bench.peers.places import ROOT

NAME = "towpath"
_BEST = {"static": "true", "commit_interval_ms": "1000"}
_SETS: Mapping[str, Mapping[str, str]] = {"default": {}, "each": {}, "best": _BEST}


class Towpath:
    """See :class:`bench.peers.model.System`."""

    name = NAME
    title = "Towpath"
    share = 1.0

    def variants(self) -> Sequence[Variant]:
        """Both guarantees, at its defaults with coordinator and state managers, without those, and one per event."""
        return [
            Variant(NAME, setting, guarantee, settings, each=setting == "each")
            for guarantee in Guarantee
            for setting, settings in _SETS.items()
        ]

    def unsupported(self, job: Job, variant: Variant) -> str | None:
        """One output per event is a matter of counts."""
        if variant.each and not job.counts:
            return "the same as its defaults"
        return None

    def prepare(self, say: Say) -> None:
        """It is the environment in which this runs."""

    def group(self, run: Run) -> str | None:
        """Of the stage that reads the source."""
        return f"{run.app}.source"

    def command(self, run: Run) -> Command:
        """``towpath run``, with two replicas where one stage is all there is: one for each core."""
        one_stage = run.job.keyed or not run.job.counts
        arguments = {
            "job": run.job.program,
            "keyed": str(run.job.keyed).lower(),
            "emit": "each" if run.variant.each else "batch",
            "replicas": "2" if one_stage else "1",
        }
        return run_command("bench.peers.towpath.job", run, arguments)


def run_command(query: str, run: Run, arguments: Mapping[str, str]) -> Command:
    """``towpath run`` of a query with the settings of a run."""
    settings = dict(run.variant.settings)
    static = ["--static"] if settings.pop("static", "") == "true" else ["--coordinator-port", "0"]
    given = {"app": run.app, "source": run.source, "sink": run.sink, **arguments}
    return Command(
        [
            *(sys.executable, "-m", "towpath.cli", "run", query, *static),
            *("--bootstrap", run.bootstrap, "--guarantee", str(run.variant.guarantee)),
            *("--state-dir", str(run.work_dir / "state"), "--run-dir", str(run.work_dir / "run")),
            *(part for name, value in given.items() for part in ("--set", f"{name}={value}")),
            *(part for name, value in settings.items() for part in ("-o", f"{name}={value}")),
        ],
        cwd=ROOT,
    )
