"""faust-streaming: one worker."""

from __future__ import annotations

from collections.abc import Sequence

from bench.peers.environment import ensure_environment, program_of, python_of, write_run
from bench.peers.model import Command, Guarantee, Job, Run, Say, Variant

NAME = "faust"
_SETTINGS = {
    "store": "rocksdb://",
    "loop": "uvloop",
    "stream_buffer_maxsize": "16384",
    "producer_linger": "0.05",
    "stream_wait_empty": "False",
    "web_enabled": "False",
}


class Faust:
    """See :class:`bench.peers.model.System`."""

    name = NAME
    title = "faust-streaming 0.15.3"
    share = 0.03

    def variants(self, job: Job) -> Sequence[Variant]:
        """At least once, which is its default; its tables count event by event."""
        if job.paced:
            settings = {**_SETTINGS, "producer_linger": "0.0"}
            return [Variant(NAME, "low-latency", Guarantee.AT_LEAST_ONCE, settings)]
        return [Variant(NAME, "default", Guarantee.AT_LEAST_ONCE, _SETTINGS)]

    def unsupported(self, job: Job) -> str | None:
        """Its share of 10 M keys would be no 10 M keys."""
        return "at its pace, a run over 10 M keys takes more than an hour" if job.large else None

    def prepare(self, say: Say) -> None:
        """Its environment."""
        ensure_environment(NAME, say)

    def group(self, run: Run) -> str | None:
        """The application's id."""
        return run.app

    def command(self, run: Run) -> Command:
        """One worker: when a second one joins, tables count again what was not committed, and the outputs are wrong."""
        return Command([str(python_of(NAME)), str(program_of(NAME)), str(write_run(run))])
