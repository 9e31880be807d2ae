"""The picture of the hand-over benchmark: latency over time, one strategy above the other."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bench.handover_figures import latency_curve

if TYPE_CHECKING:
    from bench.handover import Measured

STEP_S = 0.1
WIDTH_IN, PANEL_IN, DPI = 11.0, 2.6, 130
LINES = {"p50": "#0b7285", "p99": "#e8912d", "max": "#c92a2a"}
INK, GRID = "#1f2933", "#e4e7eb"
_STYLE = {"font.size": 9.5, "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False}


def plot(measured: Mapping[str, Measured], path: Path) -> Path:
    """Draw; gives the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(WIDTH_IN, PANEL_IN * len(measured) + 0.6), layout="constrained")
        FigureCanvasAgg(figure)
        panels = figure.subplots(len(measured), 1, sharex=True, sharey=True, squeeze=False)[:, 0]
        for axes, (strategy, run) in zip(panels, measured.items(), strict=True):
            _panel(axes, strategy, run)
        panels[0].legend(loc="upper right", ncols=len(LINES))
        panels[-1].set_xlabel("seconds since the second replica was started, by intended time of emission")
        figure.savefig(path, dpi=DPI)
    return path


def _panel(axes: Axes, strategy: str, run: Measured) -> None:
    curve = latency_curve(run.outputs, run.began_s, run.ended_s, STEP_S)
    shift_s = run.scaled_s - run.began_s
    at_s = [at - shift_s for at in curve["at_s"]]
    for name, colour in LINES.items():
        axes.plot(at_s, curve[name], color=colour, linewidth=1.2, label=name)
    axes.axvline(0.0, color=INK, linestyle=":", linewidth=1)
    axes.axvline(run.done_s - run.scaled_s, color=INK, linestyle="--", linewidth=1)
    axes.set_yscale("log")
    axes.set_ylabel("latency, ms")
    axes.grid(axis="y", color=GRID)
    axes.set_title(
        f"{strategy}: 1 → 2 replicas (dotted), all state there (dashed), kill -9 of the newcomer 5 s later",
        loc="left",
        color=INK,
    )
