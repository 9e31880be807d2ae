"""What is meant to be reached, what was, and whether that is enough: pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bench.peers.jobs import EACH_JOB, KEY_COUNTS, LATENCY_JOB, STATEFUL, STATELESS, keys_job
from bench.peers.model import Guarantee
from bench.peers.results import DRAIN, Summary, latency_measure

PER_CPU = "events_per_cpu_s"
EXACTLY, AT_LEAST = str(Guarantee.EXACTLY_ONCE), str(Guarantee.AT_LEAST_ONCE)
OURS, KAFKA_STREAMS, FAUST = "towpath", "kafka-streams", "faust"
RATES = (1_000, 10_000)
LATENCY_MS = (
    (AT_LEAST, "p50_ms", 10.0),
    (AT_LEAST, "p99_ms", 40.0),
    (EXACTLY, "p50_ms", 20.0),
    (EXACTLY, "p99_ms", 80.0),
)
OF_KAFKA_STREAMS = 0.5
RSS_MB = 600.0
FLAT_COST = 1.5


@dataclass(frozen=True)
class Subject:
    """What a side of a target is measured on.

    Attributes:
        measure: as in the results.
        job: name of the job.
        system: name of the system.
        guarantee: of the variant; None: any.
        setting: of the variant; None: the best of them.
    """

    measure: str
    job: str
    system: str
    guarantee: str | None = EXACTLY
    setting: str | None = None

    def matches(self, summary: Summary) -> bool:
        """Whether a summary is of this subject."""
        row = summary.row
        return (
            (row.measure, row.job, row.system) == (self.measure, self.job, self.system)
            and self.guarantee in (None, row.guarantee)
            and self.setting in (None, row.setting)
        )


Summaries = Sequence[Summary]


def targets(summaries: Summaries) -> list[dict[str, Any]]:
    """Every target whose sides were all asked for; ``measured`` is None, and ``ok`` false, where one has no figure."""
    return [
        *_throughput(summaries),
        *_latency(summaries),
        *_memory(summaries),
        *_flatness(summaries),
    ]


def _throughput(summaries: Summaries) -> Iterator[dict[str, Any]]:
    def times(name: str, target: float, ours: Subject, theirs: Subject) -> Iterator[dict[str, Any]]:
        if _asked(summaries, ours, theirs):
            mine, other = _figure(summaries, ours, PER_CPU, max), _figure(summaries, theirs, PER_CPU, max)
            yield _judged(f"{name}: times {theirs.system}", target, _ratio(mine, other), at_least=True)

    def against(name: str, target: float, job: str, system: str, guarantee: str | None = EXACTLY) -> Any:
        return times(name, target, Subject(DRAIN, job, OURS), Subject(DRAIN, job, system, guarantee))

    bids, short = "count-bids", EACH_JOB
    yield from against("full bids", 6, bids, KAFKA_STREAMS)
    yield from against("full bids", 6, bids, "flink")
    yield from against("full bids", 12, bids, "quix")
    yield from against("full bids", 120, bids, FAUST, None)
    one_each = [Subject(DRAIN, short, system, setting="each") for system in (OURS, KAFKA_STREAMS)]
    yield from times("100 k keys, one output per event", 4, *one_each)
    yield from against("100 k keys, best settings", 6, short, KAFKA_STREAMS)
    yield from against("10 M keys", 3, "count-10m", KAFKA_STREAMS)
    yield from against("10 M keys, Zipf 1.0", 4, "count-10m-zipf", KAFKA_STREAMS)
    agent, faust = Subject(DRAIN, bids, "towpath-agent"), Subject(DRAIN, bids, FAUST, None)
    yield from times("event-at-a-time agent", 20, agent, faust)
    for job in STATELESS:
        for system in (KAFKA_STREAMS, "flink"):
            yield from against(job, 4, job, system)
    for job in STATEFUL:
        yield from against(job, 4, job, KAFKA_STREAMS)
        yield from against(job, 3, job, "flink")


def _latency(summaries: Summaries) -> Iterator[dict[str, Any]]:
    for rate in RATES:
        measure, job = latency_measure(rate), LATENCY_JOB.name
        for guarantee, figure, limit in LATENCY_MS:
            ours = Subject(measure, job, OURS, guarantee, "default")
            if _asked(summaries, ours):
                measured = _figure(summaries, ours, figure, min)
                yield _judged(f"latency at {rate:,}/s, {guarantee}, {figure}", limit, measured)
        ours = Subject(measure, job, OURS, EXACTLY, "default")
        for setting in ("default", "low-latency"):
            theirs = Subject(measure, job, KAFKA_STREAMS, EXACTLY, setting)
            if _asked(summaries, ours, theirs):
                mine, other = (_figure(summaries, side, "p99_ms", min) for side in (ours, theirs))
                name = f"exactly-once p99 at {rate:,}/s: share of {KAFKA_STREAMS}, {setting}"
                yield _judged(name, OF_KAFKA_STREAMS, _ratio(mine, other))


def _memory(summaries: Summaries) -> Iterator[dict[str, Any]]:
    ours = Subject(DRAIN, "count-10m", OURS)
    if _asked(summaries, ours):
        peak = _figure(summaries, ours, "peak_rss_mb", min)
        flat = _figure(summaries, ours, "rss_flat", max)
        yield _judged("10 M keys: peak memory of all processes, MB", RSS_MB, peak)
        largest = _figure(summaries, ours, "peak_rss_largest_mb", min)
        yield _judged("10 M keys: peak memory of the largest process, MB", RSS_MB, largest)
        yield _judged("10 M keys: memory is flat by the last third of a run", 1.0, flat, at_least=True)


def _flatness(summaries: Summaries) -> Iterator[dict[str, Any]]:
    """The dearest event of all numbers of keys, in cheapest ones."""
    subjects = [Subject(DRAIN, keys_job("zipf", name), OURS) for name in KEY_COUNTS.values()]
    if _asked(summaries, *subjects):
        rates = [_figure(summaries, each, PER_CPU, max) for each in subjects]
        found = [rate for rate in rates if rate is not None]
        ratio = _ratio(max(found), min(found)) if len(found) == len(rates) else None
        yield _judged("cost of an event, 10 k to 10 M keys, Zipf 1.0: dearest in cheapest", FLAT_COST, ratio)


def _asked(summaries: Summaries, *subjects: Subject) -> bool:
    return all(any(subject.matches(each) for each in summaries) for subject in subjects)


def _figure(summaries: Summaries, subject: Subject, name: str, choose: Callable[[list[float]], float]) -> float | None:
    """The best median of those that match; None if none has the figure."""
    values = [each.median[name] for each in summaries if subject.matches(each) and name in each.median]
    return choose(values) if values else None


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    return round(ours / theirs, 3) if ours is not None and theirs else None


def _judged(name: str, target: float, measured: float | None, *, at_least: bool = False) -> dict[str, Any]:
    if measured is None:
        return {"id": name, "target": target, "measured": None, "ok": False}
    enough = measured >= target if at_least else measured <= target
    return {"id": name, "target": target, "measured": round(measured, 3), "ok": enough}
