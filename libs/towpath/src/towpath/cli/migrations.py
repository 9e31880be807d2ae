"""``towpath migrations``: tasks on the move, and how far their state has come."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.coordinator import CoordinatorOption
from towpath.cli.options import JsonOption
from towpath.cli.scale import client_of

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from towpath.coordinator.client import CoordinatorClient
    from towpath.coordinator.statuses import MigrationStatus

INTERVAL_S = 0.5
"""Between two looks: two heartbeats."""

NAMES = ("task", "from", "to", "step")
FIGURES = ("hot keys", "bins", "records")
"""Columns that are left out where no row has anything in them: a move has the first two, or the last."""

COLUMNS = (*NAMES, *FIGURES, "state", "rate", "left", "paused")

SHOWN_ENDED = 10
"""Moves that have ended and are still shown, newest first."""


def migrations(
    watch: Annotated[bool, typer.Option("--watch", help="Keep the picture up to date until Ctrl-C")] = False,
    all_: Annotated[bool, typer.Option("--all", help="Show all that have ended and are still known")] = False,
    coordinator: CoordinatorOption = None,
    json_: JsonOption = False,
) -> None:
    """Show tasks on the move: hot keys, bins, changelog records and bytes that have come, rate, time left.

    What has stalled is red, with the reason below. Standby copies that are being made are among them.

    Example: towpath migrations --watch
    """
    with client_of(coordinator) as client:
        if watch:
            _watch(client, json_)
            return
        found = client.migrations()
    if json_:
        typer.echo(_as_json(found))
        return
    from rich.console import Console

    Console().print(migration_table(found, None if all_ else SHOWN_ENDED))


def _watch(client: CoordinatorClient, json_: bool) -> None:
    """Look again and again; an absent coordinator is named, and waited for."""
    from rich.live import Live

    try:
        if json_:
            while True:
                typer.echo(_as_json(client.migrations()))
                time.sleep(INTERVAL_S)
        first = migration_table(client.migrations(), SHOWN_ENDED)
        with Live(first, auto_refresh=False) as live:
            while True:
                time.sleep(INTERVAL_S)
                live.update(_look(client), refresh=True)
    except KeyboardInterrupt:
        return


def _look(client: CoordinatorClient) -> RenderableType:
    from rich.text import Text

    from towpath.coordinator.errors import CoordinatorError

    try:
        return migration_table(client.migrations(), SHOWN_ENDED)
    except CoordinatorError as error:
        return Text(str(error), style="red")


def _as_json(found: list[MigrationStatus]) -> str:
    return json.dumps([move.model_dump(mode="json") for move in found])


def migration_table(found: list[MigrationStatus], ended: int | None) -> Table:
    """Moves as a table.

    Args:
        found: all that are known.
        ended: how many of those that have ended are shown; None: all.
    """
    from rich.table import Table

    over = [move for move in found if not move.active][:ended]
    moves = [*(move for move in found if move.active), *over]
    cells = [_cells(move) for move in moves]
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    shown = [name for name in COLUMNS if name not in FIGURES or any(row[name] for row in cells)]
    for name in shown:
        table.add_column(name, justify="left" if name in NAMES else "right", no_wrap=True)
    for move, row in zip(moves, cells, strict=True):
        style = "red" if move.stalled else "dim" if not move.active else None
        table.add_row(*map(row.__getitem__, shown), style=style)
    stalled = [f"{move.task}: {move.stalled}" for move in found if move.stalled]
    table.caption = "\n".join(stalled) or (None if table.rows else "nothing moves")
    table.caption_style, table.caption_justify = ("red" if stalled else "dim"), "left"
    return table


def _cells(move: MigrationStatus) -> dict[str, str]:
    progress = move.progress or {}
    read, ahead = progress.get("records"), progress.get("remaining")
    return {
        "task": move.task,
        "from": move.source or "-",
        "to": move.target,
        "step": "stalled" if move.stalled else move.step,
        "hot keys": _number(progress.get("hot_keys")),
        "bins": f"{progress['bins_done']}/{progress['bins_total']}" if "bins_done" in progress else "",
        "records": f"{read:,}/{read + ahead:,}" if read is not None and ahead is not None else "",
        "state": _bytes(progress.get("bytes")),
        "rate": f"{_bytes(progress['rate'])}/s" if move.active and progress.get("rate") else "",
        "left": _seconds(move.left_s),
        "paused": _seconds(move.paused_s),
    }


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _bytes(value: float | None) -> str:
    if value is None:
        return ""
    for unit in ("B", "kB", "MB"):
        if abs(value) < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def _seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s" if value < 600 else f"{value / 60:.0f} min"
