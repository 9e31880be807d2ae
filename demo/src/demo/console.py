"""Live progress of the main job on standard error; standard output is for the result alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pandas as pd
from rich.console import Console as RichConsole
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress

from loadgen.load import Progress


class Console:
    """Says what is being done, and how far the load has come."""

    def __init__(self) -> None:
        self._console = RichConsole(stderr=True, highlight=False)
        self._began = time.monotonic()
        self._latency = "no output yet"

    def say(self, text: str) -> None:
        """One line with the time since the start."""
        self._console.print(f"[dim]{time.monotonic() - self._began:6.1f} s[/dim]  {text}")

    def window(self, windows: pd.DataFrame) -> None:
        """Remember the newest second of visible latency."""
        visible = windows[windows["kind"] == "visible"]
        if len(visible):
            newest = visible.loc[visible["second"].idxmax()]
            self._latency = f"visible p50 {newest['p50_ms']:.0f} / p99 {newest['p99_ms']:.0f} ms"

    @contextmanager
    def load(self, total: int) -> Iterator[RichProgress]:
        """Shows the load's progress while it runs."""
        columns = (
            TextColumn("          load"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}  {task.fields[latency]}"),
            TimeElapsedColumn(),
        )
        with RichProgress(*columns, console=self._console, refresh_per_second=2) as progress:
            progress.add_task("load", total=total, rate="", latency="")
            yield progress

    def loaded(self, progress: RichProgress, now: Progress) -> None:
        """A look at the running load."""
        progress.update(
            progress.task_ids[0], completed=now.events, rate=f"{now.rate:,.0f} events/s", latency=self._latency
        )
