"""The words of the benchmark: jobs, variants of systems, runs, and what a system must be able to do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

PARTITIONS = 8
"""Of every topic, unless a job says otherwise."""

COUNTED = {"count": ("auction",), "tumbling": ("auction", "window_start")}
"""Program → the fields that say what its counts are of."""

JOINED = ("q3",)
"""Programs whose rows some systems tell of again where both sides of a join come at once: a change of a table is no
event of its own."""

Say = Callable[[str], None]
"""Where progress is told."""


class UnavailableError(RuntimeError):
    """A system can't be installed, or can't do what is asked; the text is what the page says of it."""


class RunFailedError(RuntimeError):
    """A run ended without a figure; the text is what the page says of it."""


class Guarantee(StrEnum):
    """What a fault may do to the outputs."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


class Data(StrEnum):
    """What lies in a source topic; see :mod:`bench.peers.data`."""

    NEXMARK = "nexmark"
    UNIFORM_10K = "uniform-10k"
    UNIFORM_100K = "uniform-100k"
    UNIFORM_1M = "uniform-1m"
    UNIFORM_10M = "uniform-10m"
    ZIPF_10K = "zipf-10k"
    ZIPF_100K = "zipf-100k"
    ZIPF_1M = "zipf-1m"
    ZIPF_10M = "zipf-10m"


@dataclass(frozen=True)
class Job:
    """What is computed.

    Attributes:
        name: as in options and results.
        title: for people.
        program: what a system's program knows it by; several jobs may differ in their data alone.
        data: what lies in the source topic.
        events: how many of them for a system whose share is 1.
        keyed: whether the source topic is partitioned by the key already; otherwise a shuffle is part of the job.
        paced: whether events come at a fixed rate, so that latency is what matters.
        partitions: of its topics.
        alone: whether one replica is to do all of it, on a machine that has room for more.
        among: names of the systems that it is written for; empty: all.
    """

    name: str
    title: str
    program: str
    data: Data
    events: int
    keyed: bool = False
    paced: bool = False
    partitions: int = PARTITIONS
    alone: bool = False
    among: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        """Whether its outputs are counts of bids, of which the last of each key is right."""
        return self.program in COUNTED

    @property
    def shuffles(self) -> bool:
        """Whether events go to another task by a key before anything is known of them."""
        return (self.counts or self.program in JOINED) and not self.keyed

    @property
    def large(self) -> bool:
        """Whether its state is meant to be larger than what a slow system gets through."""
        return self.data in (Data.UNIFORM_10M, Data.ZIPF_10M)


@dataclass(frozen=True)
class Variant:
    """A system under one set of settings: what a row of the results is about.

    Attributes:
        system: name of the system.
        setting: name of the set, such as ``default`` or ``best``.
        guarantee: what a fault may do to the outputs.
        settings: what is set, as the system's documentation names it; shown on the page.
    """

    system: str
    setting: str
    guarantee: Guarantee
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """As in options and results: ``kafka-streams/exactly-once/best``."""
        return f"{self.system}/{self.guarantee}/{self.setting}"


@dataclass(frozen=True)
class Run:
    """One start of one system.

    Attributes:
        app: name for groups, topics and the like; new for every run.
        variant: system and settings.
        job: what is computed.
        bootstrap: the broker.
        source: topic to read from its beginning.
        sink: topic to write; it exists.
        work_dir: for state and logs; empty at the start.
        events: how many there will be in the source.
    """

    app: str
    variant: Variant
    job: Job
    bootstrap: str
    source: str
    sink: str
    work_dir: Path
    events: int

    def with_settings(self, settings: Mapping[str, str]) -> Run:
        """The same run with other settings: those of the variant, and what only the moment knows."""
        return replace(self, variant=replace(self.variant, settings=settings))

    def described(self) -> dict[str, Any]:
        """What a peer's program reads."""
        return {
            "app": self.app,
            "job": self.job.program,
            "keyed": self.job.keyed,
            "bootstrap": self.bootstrap,
            "source": self.source,
            "sink": self.sink,
            "partitions": self.job.partitions,
            "guarantee": str(self.variant.guarantee),
            "settings": dict(self.variant.settings),
            "state_dir": str(self.work_dir / "state"),
        }


@dataclass(frozen=True)
class Command:
    """How a system is started.

    Attributes:
        argv: command line.
        copies: processes of it, for a system that needs one for each core.
        env: on top of this process's environment.
        cwd: working directory; None: the run's.
    """

    argv: Sequence[str]
    copies: int = 1
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None


class System(Protocol):
    """A stream processor as the benchmark sees it."""

    @property
    def name(self) -> str:
        """As in options and results."""
        ...

    @property
    def title(self) -> str:
        """For people, with its version."""
        ...

    @property
    def share(self) -> float:
        """Times a job's events that it gets, so that its runs take from 10 seconds to a minute."""
        ...

    def variants(self, job: Job) -> Sequence[Variant]:
        """The sets of settings in which it is measured at a job; those that mean nothing to it are left out."""
        ...

    def unsupported(self, job: Job) -> str | None:
        """Why it can't do a job, or None."""
        ...

    def prepare(self, say: Say) -> None:
        """Install what it needs, unless that is there.

        Raises:
            UnavailableError: it can't be had.
        """
        ...

    def group(self, run: Run) -> str | None:
        """The consumer group under which it commits its position in the source topic, or None if it doesn't."""
        ...

    def command(self, run: Run) -> Command:
        """How to start a run; files for it may be written to the run's directory."""
        ...
