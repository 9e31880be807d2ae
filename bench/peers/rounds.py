"""Carries out what was chosen: measure after measure, round after round, one system after another."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.peers.drain import Bench
from bench.peers.model import Job, Run, RunFailedError, Say, System, UnavailableError, Variant
from bench.peers.places import ROOT
from bench.peers.results import Row, append
from bench.peers.topics import Topics
from bench.peers.tree import ProcessTree
from towpath.broker import LocalBroker

BROKER_HEAP = "1g"
BROKER = {"group.initial.rebalance.delay.ms": "3000"}
"""Kafka's default: processes that start together share the partitions from the beginning. Else the first of them works
alone until the second comes, and what it had not committed is processed twice."""

FAILURES = 2
"""After which a subject is left alone: it would fail again, and each failure takes its time."""


_NUMBERS = itertools.count(1)
"""Of runs: each has names of its own. They are short, since some become paths of sockets, which end at 108 bytes."""


class Measure(Protocol):
    """Something that is measured of every system."""

    @property
    def name(self) -> str:
        """As in the results."""
        ...

    @property
    def job(self) -> Job:
        """What the systems compute."""
        ...

    @property
    def rehearsed(self) -> bool:
        """Whether a first run, which does not count, is to warm the broker: else whoever comes first has it cold."""
        ...

    def events(self, system: System) -> int:
        """How many the system gets."""
        ...

    def figures(self, bench: Bench, system: System, run: Run) -> Mapping[str, Any]:
        """Carry out a run.

        Raises:
            RunFailedError: there is no figure.
        """
        ...


@dataclass(frozen=True)
class Choice:
    """Who is measured, and how often.

    Attributes:
        systems: in their order within a round.
        rounds: of each measure.
        limit_s: longest run.
        wanted: chooses among the variants of a system.
        results: file for the rows.
    """

    systems: Sequence[System]
    rounds: int
    limit_s: float
    wanted: Callable[[Sequence[Variant]], Sequence[Variant]]
    results: Path


def carry_out(choice: Choice, measures: Sequence[Measure], say: Say) -> None:
    """Everything, on a broker of its own; each row is written as soon as it is there."""
    unavailable: dict[str, str] = {}
    for system in choice.systems:
        try:
            system.prepare(say)
        except UnavailableError as error:
            unavailable[system.name] = str(error)
            say(f"{system.name}: left out: {error}")
    with _broker(choice, say) as (bench, work_dir):
        for measure in measures:
            _Rounds(choice, measure, bench, work_dir, unavailable, say).run()


class _Rounds:
    """All rounds of one measure."""

    def __init__(
        self,
        choice: Choice,
        measure: Measure,
        bench: Bench,
        work_dir: Path,
        unavailable: Mapping[str, str],
        say: Say,
    ) -> None:
        self._choice = choice
        self._measure = measure
        self._bench = bench
        self._work_dir = work_dir
        self._unavailable = unavailable
        self._say = say
        self._failures: dict[str, list[str]] = {}
        self._revision = _revision()

    def run(self) -> None:
        if self._measure.rehearsed:
            self._rehearse()
        among = self._measure.job.among
        systems = [system for system in self._choice.systems if not among or system.name in among]
        for number, system in itertools.product(range(1, self._choice.rounds + 1), systems):
            for variant in self._choice.wanted(system.variants(self._measure.job)):
                row = self._row(number, system, variant)
                append(self._choice.results, row)
                self._say(_told(row))

    def _rehearse(self) -> None:
        system = self._choice.systems[0]
        variant = self._choice.wanted(system.variants(self._measure.job))[0]
        self._say(f"{self._measure.name}: a run of {system.name} that does not count, to warm the broker")
        self._row(0, system, variant)

    def _row(self, number: int, system: System, variant: Variant) -> Row:
        figures: Mapping[str, Any] = {}
        error = self._reason_against(system, variant)
        if error is None:
            try:
                figures = self._run(system, variant)
            except (RunFailedError, UnavailableError, TimeoutError) as failure:
                error = str(failure)
                self._failures.setdefault(variant.name, []).append(error)
        return Row(
            measure=self._measure.name,
            job=self._measure.job.name,
            system=system.name,
            guarantee=str(variant.guarantee),
            setting=variant.setting,
            settings=variant.settings,
            round=number,
            events=self._measure.events(system),
            figures=figures,
            error=error,
            revision=self._revision,
        )

    def _reason_against(self, system: System, variant: Variant) -> str | None:
        failures = self._failures.get(variant.name, [])
        return (
            self._unavailable.get(system.name)
            or system.unsupported(self._measure.job)
            or (failures[-1] if len(failures) >= FAILURES else None)
        )

    def _run(self, system: System, variant: Variant) -> Mapping[str, Any]:
        app = f"r{next(_NUMBERS):04}-{system.name}"
        work_dir = self._work_dir / app
        work_dir.mkdir()
        topics = self._bench.topics
        events = self._measure.events(system)
        run = Run(app, variant, self._measure.job, topics.bootstrap, f"{app}-in", f"{app}-out", work_dir, events)
        try:
            return self._measure.figures(self._bench, system, run)
        finally:
            topics.remove(app)
            shutil.rmtree(work_dir, ignore_errors=True)


@contextmanager
def _broker(choice: Choice, say: Say) -> Iterator[tuple[Bench, Path]]:
    with (
        tempfile.TemporaryDirectory(prefix="towpath-peers-") as made,
        LocalBroker(Path(made) / "broker", heap=BROKER_HEAP, settings=BROKER, notify=say, tied=True) as broker,
    ):
        yield Bench(Topics(broker.bootstrap), ProcessTree([broker.start().pid]), choice.limit_s, say), Path(made)


def _revision() -> str:
    """Of the repository, with ``+`` behind it when something has been changed since."""
    git = ("git", "-C", str(ROOT))
    try:
        head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
        changed = subprocess.run([*git, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


def _told(row: Row) -> str:
    subject = f"{row.measure} {row.job}, round {row.round}: {row.system} {row.guarantee} {row.setting}"
    if row.error is not None:
        return f"{subject}: {row.error}"
    told = ("events_per_cpu_s", "events_per_s", "outputs_per_event", "p50_ms", "p99_ms", "p999_ms")
    figures = [f"{name}={row.figures[name]:,.3g}" for name in told if name in row.figures]
    return f"{subject}: {', '.join(figures)}"
