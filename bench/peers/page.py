"""The page: what was measured and how, in Markdown, out of the results alone."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bench.peers.expected import LAG_MS
from bench.peers.jobs import JOBS, LATENCY_JOB, SCALING
from bench.peers.latency import WARM_S
from bench.peers.progress import START_SHARE
from bench.peers.results import DRAIN, Summary, latency_measure

_INTRODUCTION = f"""\
# Benchmarks

The same jobs on Towpath and its peers. `make bench-peers` writes this page: nothing here is edited by hand, and the
single runs are in `build/bench/peers/results.jsonl`.

How it is measured:

- One broker, one machine, one system at a time, in turn within every round. JSON in, JSON out, 8 partitions. Figures
  are medians over the rounds, with the lowest and the highest.
- Every run starts afresh, and its outputs are compared with a batch computation over the same events: final counts, or
  all rows. A run with a wrong output has no figure.
- *Drain*: the topic is full when the system starts. The clock starts when {START_SHARE:.0%} of the results are visible
  to a read_committed reader and nothing more is on its way to it, and stops when all are: starts and warm-up are left
  out for everybody alike. An event that was taken before and has no result yet, because it is between two stages,
  counts half. Processor time is that of all the system's processes. *Whole run* has starts and warm-up in it.
- Quicker systems get more of the same events than slower ones, so that a run takes from ten seconds to a minute. In a
  window of two seconds, what a system had done before it but not yet committed would be a large part of what counts.
- Short bids are partitioned by their key, so that counting them needs no shuffle; the full stream is not.
- *Latency*: events are sent at a fixed rate by a process of their own. The latency of an event goes from the time at
  which it was meant to be sent to the time at which a read_committed reader has a result that includes it. The load
  begins when a system has shown its first result, and {WARM_S:.0f} s of it do not count. The first run at a rate is
  one that is not shown: a broker needs a minute of such requests until its compiler is done. The load's own delay is
  part of every figure.
- Windows: those that end {LAG_MS // 1000} s and a window's length before the last event count. Towpath and Flink
  tell of a window once, when it is over; Kafka Streams tells of changes, with a grace longer than the data, since
  what one of its threads reads ahead makes records late that another has still to read. The last count of each window
  is compared.
- Join: Kafka Streams joins two tables, and tells of a row again where both sides come at once; rows are compared
  without repetitions.
- Settings are those that each system's documentation recommends; they are listed at the end.
"""


def page(
    summaries: Sequence[Summary],
    targets: Sequence[Mapping[str, Any]],
    machine: Mapping[str, Any],
    titles: Mapping[str, str],
    pictures: Mapping[str, str],
) -> str:
    """The whole page.

    Args:
        summaries: of everything that was measured.
        targets: with what was reached.
        machine: what it was measured on.
        titles: name of a system → for people.
        pictures: title → address of a picture.
    """
    revisions = sorted({each.row.revision for each in summaries})
    parts = [_INTRODUCTION, _machine(machine, revisions), _targets(targets)]
    parts += [f"![{title}]({address})\n" for title, address in pictures.items()]
    parts += [_drains(job.name, job.title, summaries, titles) for job in JOBS]
    parts += [_scaling(summaries)]
    parts += [_latencies(summaries, titles), _settings(summaries, titles)]
    return "\n".join(part for part in parts if part)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table, numbers to the right; empty if there are no rows."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    if not lines:
        return ""
    rule = "|".join("---" if number < _TEXT_COLUMNS else "---:" for number in range(len(head)))
    return "\n".join([f"| {' | '.join(head)} |", f"|{rule}|", *lines, ""])


_TEXT_COLUMNS = 3
_TELLING = re.compile(r"(Error|Exception)\b.*:")


def _machine(machine: Mapping[str, Any], revisions: Sequence[str]) -> str:
    return (
        f"Measured on {machine['date']}: {machine['processor']}, {machine['cores']} cores, "
        f"{machine['memory_gib']} GiB, {machine['system']}, Python {machine['python']}; "
        f"load before {machine['load_before']}; "
        f"revision {', '.join(revisions) or 'unknown'}.\n"
    )


def _targets(targets: Sequence[Mapping[str, Any]]) -> str:
    if not targets:
        return ""
    rows = [
        (str(each["id"]), "yes" if each["ok"] else "no", _number(each["target"]), _number(each["measured"]))
        for each in targets
    ]
    lines = ["| target | reached | target | measured |", "|---|---|---:|---:|"]
    return "\n".join(["## Targets\n", *lines, *(f"| {' | '.join(row)} |" for row in rows), ""])


def _drains(job: str, title: str, summaries: Sequence[Summary], titles: Mapping[str, str]) -> str:
    found = [each for each in summaries if (each.row.measure, each.row.job) == (DRAIN, job)]
    head = (
        *("system", "guarantee", "setting", "events per processor second", "events per second", "whole run"),
        *("outputs per event", "changelog per event", "peak memory, MB", "events", "rounds"),
    )
    ranked = sorted((each for each in found if each.rounds), key=lambda each: -each.median["events_per_cpu_s"])
    rows = [
        (
            *_subject(each, titles),
            _spread(each, "events_per_cpu_s"),
            _number(each.median["events_per_s"]),
            _number(each.median["whole_events_per_cpu_s"]),
            _number(each.median["outputs_per_event"]),
            _number(each.median.get("changelog_per_event")),
            _number(each.median["peak_rss_mb"]),
            _number(each.row.events),
            str(each.rounds),
        )
        for each in ranked
    ]
    return _section(f"## {title[0].upper()}{title[1:]}\n", table(head, rows), found, titles)


def _scaling(summaries: Sequence[Summary]) -> str:
    """Ours alone: what an event costs by number of keys and of partitions, beside the cheapest of its kind."""
    found = {each.row.job: each for each in summaries if each.row.measure == DRAIN and each.rounds}
    jobs = [job for job in SCALING if job.name in found]
    kinds = [job.name.rpartition("-")[0] for job in jobs]
    cost = {job.name: 1e6 / found[job.name].median["events_per_cpu_s"] for job in jobs}
    least = {
        kind: min(cost[job.name] for job, each in zip(jobs, kinds, strict=True) if each == kind) for kind in set(kinds)
    }
    rows = [
        (
            job.title,
            _number(cost[job.name]),
            _number(cost[job.name] / least[kind]),
            _spread(found[job.name], "events_per_cpu_s"),
            _number(found[job.name].median["changelog_per_event"]),
            _number(found[job.name].median["peak_rss_largest_mb"]),
            str(found[job.name].rounds),
        )
        for job, kind in zip(jobs, kinds, strict=True)
    ]
    head = (
        "| Towpath, exactly-once, default | processor µs per event | times the least | events per processor second | "
    )
    lines = [
        head + "changelog per event | peak memory of the replica, MB | rounds |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *(f"| {' | '.join(row)} |" for row in rows),
    ]
    return "\n".join(["## Key count by number of keys and partitions\n", *lines, ""]) if rows else ""


def _latencies(summaries: Sequence[Summary], titles: Mapping[str, str]) -> str:
    rates = sorted({int(each.row.measure.rpartition("-")[2]) for each in summaries if each.row.job == LATENCY_JOB.name})
    parts = []
    for rate in rates:
        found = [each for each in summaries if each.row.measure == latency_measure(rate)]
        head = (
            "system",
            "guarantee",
            "setting",
            "p50, ms",
            "p99, ms",
            "p99.9, ms",
            "load's own p99",
            "cores",
            "rounds",
        )
        rows = [
            (
                *_subject(each, titles),
                _spread(each, "p50_ms"),
                _spread(each, "p99_ms"),
                _spread(each, "p999_ms"),
                _number(each.median["own_p99_ms"]),
                _number(each.median["cpu_cores"]),
                str(each.rounds),
            )
            for each in sorted(found, key=lambda each: each.median.get("p99_ms", 0.0))
            if each.rounds
        ]
        parts.append(_section(f"### {rate:,} events per second\n", table(head, rows), found, titles))
    return "\n".join([f"## Latency: {LATENCY_JOB.title}, one stage\n", *parts]) if parts else ""


def _section(title: str, body: str, found: Sequence[Summary], titles: Mapping[str, str]) -> str:
    """With the reasons of those that have no figures; the same reason of several settings is said once."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for each in found:
        if not each.rounds:
            why = reason(each.error or "unknown")
            reasons.setdefault((each.row.system, why), []).append(f"{each.row.guarantee}, {each.row.setting}")
    without = [
        f"- {titles.get(system, system)} ({'; '.join(which)}): {why}" for (system, why), which in reasons.items()
    ]
    if not body and not without:
        return ""
    told = ["Without figures:\n", *without, ""] if without else []
    return "\n".join([title, body, *told])


def reason(error: str) -> str:
    """One line of an error that may have the end of a log in it: what was said first, and the last error in the log."""
    first, *log = error.strip().splitlines()
    telling = [line.strip() for line in log if _TELLING.search(line)]
    if not telling:
        return first
    said, colon, _ = first.partition(": ")
    return f"{said}{colon}{telling[-1]}"


def _settings(summaries: Sequence[Summary], titles: Mapping[str, str]) -> str:
    shown: dict[tuple[str, str, str], Mapping[str, str]] = {}
    for each in summaries:
        row = each.row
        shown.setdefault((row.system, row.guarantee, row.setting), row.settings)
    rows = [
        (
            titles.get(system, system),
            guarantee,
            setting,
            ", ".join(f"`{name}={value}`" for name, value in settings.items()) or "its defaults",
        )
        for (system, guarantee, setting), settings in shown.items()
    ]
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(["## Settings\n", "| system | guarantee | name | settings |", "|---|---|---|---|", *lines, ""])


def _subject(each: Summary, titles: Mapping[str, str]) -> tuple[str, str, str]:
    return titles.get(each.row.system, each.row.system), each.row.guarantee, each.row.setting


def _spread(each: Summary, name: str) -> str:
    middle = _number(each.median[name])
    return middle if each.rounds == 1 else f"{middle} ({_number(each.low[name])} – {_number(each.high[name])})"


def _number(value: float | bool | None) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if abs(value) >= 100 or float(value).is_integer():
        return f"{value:,.0f}"
    return f"{value:.3g}"
