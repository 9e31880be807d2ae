"""The pictures: events per processor second of every system and job, and latency at every rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bench.peers.jobs import JOBS, KEY_COUNTS, LAWS, PARTITION_COUNTS, keys_job, partitions_job
from bench.peers.results import DRAIN, Summary

COLOURS = {"exactly-once": "#0b7285", "at-least-once": "#99c8d1"}
INK, GRID, OURS = "#1f2933", "#e4e7eb", "#e8912d"
POINTS = (("p50_ms", "o"), ("p99_ms", "s"), ("p999_ms", "^"))
LABEL_ROOM = 1.12
"""Of the axis over the longest bar, whose number stands behind it."""

WIDTH_IN, BAR_IN, MARGIN_IN, DPI = 11.0, 0.26, 0.9, 130
Panels = Sequence[tuple[str, list[Summary]]]
_STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}


def plot_throughput(summaries: Sequence[Summary], path: Path) -> bool:
    """One panel for each job, the best setting of each system and guarantee; False if there is nothing to draw."""
    jobs = [(job.title, _best_of(summaries, job.name)) for job in JOBS]
    return _draw([(title, rows) for title, rows in jobs if rows], _bars, "events per processor second", path)


def plot_latency(summaries: Sequence[Summary], path: Path) -> bool:
    """One panel for each rate; False if there is nothing to draw."""
    rates: dict[int, list[Summary]] = {}
    for each in summaries:
        if each.rounds and each.row.measure.startswith("latency-"):
            rates.setdefault(int(each.row.measure.rpartition("-")[2]), []).append(each)
    panels = [
        (f"{rate:,} events per second", sorted(rates[rate], key=lambda each: -each.median["p99_ms"]))
        for rate in sorted(rates)
    ]
    return _draw(panels, _points, "ms until visible: p50 (circle), p99 (square), p99.9 (triangle)", path)


def _best_of(summaries: Sequence[Summary], job: str) -> list[Summary]:
    best: dict[tuple[str, str], Summary] = {}
    for each in summaries:
        if each.rounds and (each.row.measure, each.row.job) == (DRAIN, job):
            key = each.row.system, each.row.guarantee
            if key not in best or _rate(each) > _rate(best[key]):
                best[key] = each
    return sorted(best.values(), key=_rate)


def _rate(each: Summary) -> float:
    return each.median["events_per_cpu_s"]


def _draw(
    panels: Sequence[tuple[str, list[Summary]]], draw: Callable[[Axes, list[Summary]], None], label: str, path: Path
) -> bool:
    if not panels:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    heights = [BAR_IN * len(rows) + MARGIN_IN for _, rows in panels]
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(WIDTH_IN, sum(heights)), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.subplots(len(panels), 1, squeeze=False, gridspec_kw={"height_ratios": heights})[:, 0]
        for each, (title, rows) in zip(axes, panels, strict=True):
            draw(each, rows)
            each.set_title(title, loc="left", color=INK)
            each.grid(axis="x", color=GRID)
            each.set_axisbelow(True)
        axes[-1].set_xlabel(label)
        figure.savefig(path, dpi=DPI)
    return True


def _bars(axes: Axes, rows: list[Summary]) -> None:
    names = [_name(each) for each in rows]
    values = [_rate(each) for each in rows]
    spread = [
        [value - each.low["events_per_cpu_s"] for value, each in zip(values, rows, strict=True)],
        [each.high["events_per_cpu_s"] - value for value, each in zip(values, rows, strict=True)],
    ]
    axes.set_xlim(0, max(values) * LABEL_ROOM)
    axes.barh(names, values, xerr=spread, color=[COLOURS[each.row.guarantee] for each in rows], ecolor=INK)
    for place, value in enumerate(values):
        axes.annotate(f" {value:,.0f}", (value, place), va="center", color=INK)


def _points(axes: Axes, rows: list[Summary]) -> None:
    axes.set_xscale("log")
    for figure, marker in POINTS:
        axes.scatter(
            [each.median[figure] for each in rows],
            [_name(each) for each in rows],
            marker=marker,
            color=[OURS if each.row.system.startswith("towpath") else COLOURS["exactly-once"] for each in rows],
        )


def plot_scaling(summaries: Sequence[Summary], path: Path) -> bool:
    """Processor time of an event by number of keys and of partitions; False if there is nothing to draw."""
    cost = {each.row.job: 1e6 / _rate(each) for each in summaries if each.rounds and each.row.measure == DRAIN}
    by_keys = {law: [(count, keys_job(law, name)) for count, name in KEY_COUNTS.items()] for law in LAWS}
    lines = {law: [(count, cost[job]) for count, job in jobs if job in cost] for law, jobs in by_keys.items()}
    parts = [(count, cost[partitions_job(count)]) for count in PARTITION_COUNTS if partitions_job(count) in cost]
    if not any(lines.values()) and not parts:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(WIDTH_IN, 3.4), layout="constrained")
        FigureCanvasAgg(figure)
        keys, partitions = figure.subplots(1, 2)
        for (law, points), colour in zip(lines.items(), (COLOURS["exactly-once"], OURS), strict=True):
            keys.plot(*zip(*points, strict=True), "o-", color=colour, label=LAWS[law]) if points else None
        keys.legend()
        if parts:
            partitions.plot(*zip(*parts, strict=True), "o-", color=COLOURS["exactly-once"])
        for axes, label in ((keys, "keys"), (partitions, "partitions on one replica")):
            axes.set_xscale("log")
            axes.set_ylim(bottom=0)
            axes.set_xlabel(label)
            axes.set_ylabel("processor µs per event")
            axes.grid(color=GRID)
        figure.savefig(path, dpi=DPI)
    return True


def _name(each: Summary) -> str:
    return f"{each.row.system}, {each.row.guarantee}, {each.row.setting}"


def pictures(summaries: Sequence[Summary], directory: Path) -> Mapping[str, Path]:
    """Title → file, of those that there is something for."""
    drawn = {
        "Events per processor second": (plot_throughput, directory / "peers-throughput.png"),
        "Cost of an event": (plot_scaling, directory / "peers-scaling.png"),
        "Latency": (plot_latency, directory / "peers-latency.png"),
    }
    return {title: path for title, (plot, path) in drawn.items() if plot(summaries, path)}
