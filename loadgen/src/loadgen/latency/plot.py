"""The plot of a run: latency and throughput over time, on one time axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

__all__ = ["LOG_SCALE_FROM", "draw", "per_second", "uses_log_scale"]

LOG_SCALE_FROM = 20.0
"""Ratio of the greatest maximum to the median of medians from which a linear axis would flatten the median."""

WIDTH_IN, PANEL_IN, DPI = 11.0, 2.9, 130

INK, FAINT, GRID = "#1f2933", "#7b8794", "#e4e7eb"
COLOURS = {"p50_ms": "#0b7285", "p95_ms": "#3b82c4", "p99_ms": "#e8912d", "max_ms": "#c92a2a"}
NAMES = {"p50_ms": "p50", "p95_ms": "p95", "p99_ms": "p99", "max_ms": "max"}

_STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "axes.edgecolor": GRID,
    "axes.labelcolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlecolor": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "grid.color": GRID,
    "grid.linewidth": 0.8,
    "legend.frameon": False,
    "figure.facecolor": "white",
}


@dataclass(frozen=True, slots=True)
class Panel:
    """One latency panel: a title and the kinds' rows."""

    title: str
    windows: pd.DataFrame
    lines: Sequence[str] = ("p50_ms", "p99_ms", "max_ms")


def per_second(windows: pd.DataFrame, kind: str, first: int, last: int) -> pd.DataFrame:
    """Figures of one kind on a gapless axis of seconds; topics are put together by their worst figure.

    Args:
        windows: Per topic, kind and second.
        kind: Which latency.
        first: First second of the axis, since the Unix epoch.
        last: Last second.

    Returns:
        Indexed by seconds since `first`; rows and events are sums (0 where nothing came), latencies NaN there.
    """
    chosen = windows[windows["kind"] == kind]
    worst = dict.fromkeys(NAMES, "max") | {"rows": "sum", "events": "sum"}
    grouped = chosen.groupby("second").agg(worst).reindex(range(first, last + 1))
    grouped[["rows", "events"]] = grouped[["rows", "events"]].fillna(0)
    grouped.index = pd.Index(range(last - first + 1), name="second")
    return grouped


def uses_log_scale(table: pd.DataFrame) -> bool:
    """Whether the spread from the median to the maximum asks for a logarithmic axis."""
    medians, highest = table["p50_ms"].median(), table["max_ms"].max()
    return bool(highest >= LOG_SCALE_FROM * max(float(medians), 1.0)) if medians == medians else False


def draw(windows: pd.DataFrame, path: Path, title: str) -> None:
    """Draws a run into a PNG file.

    Args:
        windows: `Frames.windows`, not empty.
        path: The file.
        title: Printed above.
    """
    first, last = int(windows["second"].min()), int(windows["second"].max())
    tables = {kind: per_second(windows, kind, first, last) for kind in ("visible", "append", "load")}
    titles = {
        "visible": "Visible latency: a committed reader has the output, after the input was meant to be sent",
        "append": "Append latency: the output is in the log (perhaps not yet committed)",
        "load": "The load's own delay: the input is in the log",
    }
    panels = [Panel(titles[kind], table) for kind, table in tables.items() if table["rows"].sum() > 0]
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH_IN, PANEL_IN * (len(panels) + 1)), layout="constrained")
        figure.get_layout_engine().set(h_pad=0.12)  # type: ignore[union-attr, call-arg]
        FigureCanvasAgg(figure)
        axes = np.atleast_1d(figure.subplots(len(panels) + 1, 1, sharex=True))
        figure.suptitle(title, x=0.012, ha="left", fontsize=14, fontweight="bold", color=INK)
        for axis, panel in zip(axes, panels, strict=False):
            _latency_panel(axis, panel)
        _throughput_panel(axes[-1], tables["append"], tables["load"])
        axes[-1].set_xlabel("seconds since the first append")
        axes[-1].set_xlim(0, max(last - first, 1))
        figure.savefig(path, dpi=DPI)


def _latency_panel(axis: Axes, panel: Panel) -> None:
    table = panel.windows
    x = table.index.to_numpy()
    for name in panel.lines:
        y = table[name].clip(lower=0.5 if uses_log_scale(table) else 0)
        emphasis = 1.0 if name == "max_ms" else 1.9
        axis.plot(x, y, color=COLOURS[name], linewidth=emphasis, label=NAMES[name], solid_capstyle="round")
        lonely = y.notna() & y.shift(1).isna() & y.shift(-1).isna()
        axis.plot(x[lonely], y[lonely], ".", color=COLOURS[name], markersize=4)
    if uses_log_scale(table):
        axis.set_yscale("log")
        axis.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 3)))
        axis.yaxis.set_minor_locator(NullLocator())
    else:
        axis.set_ylim(bottom=0)
    axis.yaxis.set_major_formatter(FuncFormatter(_milliseconds))
    _finish(axis, panel.title, len(panel.lines))


def _throughput_panel(axis: Axes, outputs: pd.DataFrame, inputs: pd.DataFrame) -> None:
    series = [("outputs", outputs["rows"], "#0b7285"), ("events behind them", outputs["events"], "#3b82c4")]
    if inputs["rows"].sum():
        series.append(("events sent", inputs["rows"], "#7b8794"))
    for label, values, colour in series:
        axis.plot(values.index, values, color=colour, linewidth=1.7, label=label)
    axis.set_ylim(bottom=0)
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    _finish(axis, "Throughput per second", len(series))


def _finish(axis: Axes, title: str, columns: int) -> None:
    axis.set_title(title, pad=20)
    axis.grid(visible=True, axis="y")
    axis.tick_params(length=0)
    axis.legend(
        loc="lower left", bbox_to_anchor=(0, 0.985), ncols=columns, handlelength=1.3, borderaxespad=0, labelcolor=INK
    )


def _milliseconds(value: float, _: int) -> str:
    if value >= 1000:
        return f"{value / 1000:g} s"
    return f"{value:g} ms"
