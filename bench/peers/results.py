"""Results: a line of JSON for every run, and medians and spread over the rounds."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

DRAIN = "drain"


def latency_measure(rate: int) -> str:
    """Name of the measure of latency at a rate."""
    return f"latency-{rate}"


@dataclass(frozen=True)
class Row:
    """What came of a run.

    Attributes:
        measure: ``drain``, or ``latency-10000``.
        job: name of the job.
        system: name of the system.
        guarantee: of the variant.
        setting: of the variant.
        settings: what was set.
        round: number of the round, from 1 on.
        events: how many there were.
        figures: name → value; empty if there is an error.
        error: why there are no figures.
        revision: of the repository.
    """

    measure: str
    job: str
    system: str
    guarantee: str
    setting: str
    settings: Mapping[str, str]
    round: int
    events: int
    figures: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    revision: str = ""

    @property
    def subject(self) -> tuple[str, str, str, str, str]:
        """What is measured again in every round."""
        return self.measure, self.job, self.system, self.guarantee, self.setting


@dataclass(frozen=True)
class Summary:
    """The rounds of one subject.

    Attributes:
        row: the newest of them.
        rounds: with figures.
        median: figure → median over the rounds.
        low: figure → lowest.
        high: figure → highest.
        error: why there is no figure at all.
    """

    row: Row
    rounds: int
    median: Mapping[str, float]
    low: Mapping[str, float]
    high: Mapping[str, float]
    error: str | None


def append(path: Path, row: Row) -> None:
    """Add a row to the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(row)) + "\n")


def load(path: Path) -> list[Row]:
    """All rows of the file, oldest first; none if there is no file."""
    if not path.exists():
        return []
    return [Row(**json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]


def newest(rows: Iterable[Row]) -> list[Row]:
    """For each subject and round, the newest row."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        found[(*row.subject, row.round)] = row
    return list(found.values())


def summarised(rows: Iterable[Row]) -> list[Summary]:
    """One summary for each subject, in the order of first appearance."""
    subjects: dict[tuple[str, ...], list[Row]] = {}
    for row in newest(rows):
        subjects.setdefault(row.subject, []).append(row)
    return [_summary(each) for each in subjects.values()]


def _summary(rows: Sequence[Row]) -> Summary:
    good = [row for row in rows if row.error is None]
    if not good:
        return Summary(rows[-1], 0, {}, {}, {}, rows[-1].error)
    names = [name for name, value in good[-1].figures.items() if isinstance(value, int | float)]
    values = {name: [float(row.figures[name]) for row in good if row.figures[name] is not None] for name in names}
    return Summary(
        good[-1],
        len(good),
        {name: statistics.median(each) for name, each in values.items() if each},
        {name: min(each) for name, each in values.items() if each},
        {name: max(each) for name, each in values.items() if each},
        None,
    )
