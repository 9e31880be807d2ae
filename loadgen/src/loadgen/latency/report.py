"""The report of a run: one HTML file that needs no other, and the plot as PNG."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import jinja2
import pandas as pd

from loadgen.errors import LoadgenError
from loadgen.latency.meter import Frames
from loadgen.latency.plot import draw

__all__ = ["report"]

KIND_NAMES = {
    "visible": "visible (read_committed)",
    "append": "append, oldest input",
    "append_newest": "append, newest input",
    "load": "load's own delay",
}


def report(
    frames: Frames, path: Path, *, title: str = "Latency and throughput", facts: Mapping[str, object] | None = None
) -> dict[str, Path]:
    """Writes the plot and the report.

    Args:
        frames: The figures.
        path: A directory (files `report.html` and `report.png` in it), or the HTML file (`.html`), beside which
            the plot gets the same name.
        title: Heading.
        facts: What a reader should know of the run, name → value, shown above the plot.

    Returns:
        The files: `html`, `png`.

    Raises:
        LoadgenError: There is nothing to show.
    """
    if not len(frames.windows):
        raise LoadgenError("no record was measured, so there is nothing to report; did the pipeline run?")
    html = path if path.suffix == ".html" else path / "report.html"
    html.parent.mkdir(parents=True, exist_ok=True)
    png = html.with_suffix(".png")
    draw(frames.windows, png, title)
    template = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined).from_string(
        files("loadgen.latency").joinpath("report.html").read_text(encoding="utf-8")
    )
    text = template.render(
        title=title,
        facts={name: _plain(value) for name, value in (facts or {}).items()},
        period=_period(frames.windows),
        totals=_totals(frames.totals),
        records=[
            {"topic": topic, "spark": f"{rows:,}", "receiver": _received(frames, topic)}
            for topic, rows in frames.records.items()
        ],
        plot=base64.b64encode(png.read_bytes()).decode(),
    )
    html.write_text(text, encoding="utf-8")
    return {"html": html, "png": png}


def _plain(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _received(frames: Frames, topic: str) -> str:
    return f"{frames.received[topic]:,}" if topic in frames.received else "–"


def _period(windows: pd.DataFrame) -> str:
    first, last = (datetime.fromtimestamp(int(windows["second"].agg(f)), UTC) for f in ("min", "max"))
    return f"{first:%Y-%m-%d %H:%M:%S} – {last:%H:%M:%S} UTC"


def _totals(totals: pd.DataFrame) -> list[dict[str, str]]:
    rows = []
    for row in totals.to_dict("records"):
        figures = {
            name: "–" if pd.isna(row[name]) else f"{row[name]:,.0f}"
            for name in ("p50_ms", "p95_ms", "p99_ms", "max_ms")
        }
        counts = {"rows": f"{row['rows']:,}", "events": f"{row['events']:,}"}
        kind = str(row["kind"])
        rows.append({"topic": str(row["topic"]), "kind": KIND_NAMES.get(kind, kind)} | counts | figures)
    return rows
