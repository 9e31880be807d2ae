"""``towpath tasks``: every task, its owner, and what that one says of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

from towpath.cli.coordinator import CoordinatorOption
from towpath.cli.options import JsonOption
from towpath.cli.scale import client_of

if TYPE_CHECKING:
    from rich.table import Table

    from towpath.coordinator.statuses import TaskStatus

PROBLEMS = frozenset({"silent", "unassigned"})
"""States that are shown in red."""


def tasks(coordinator: CoordinatorOption = None, json_: JsonOption = False) -> None:
    """Show every task of the running query with its owner, epoch, state, and lag: input offsets not read yet.

    Example: towpath tasks --coordinator http://127.0.0.1:7070
    """
    with client_of(coordinator) as client:
        found = client.tasks()
    if json_:
        typer.echo(json.dumps([task.model_dump(mode="json") for task in found]))
        return
    from rich.console import Console

    Console().print(task_table(found))


def task_table(found: list[TaskStatus]) -> Table:
    """The tasks as a table."""
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE)
    for name in ("task", "owner", "epoch", "state", "has all state", "waits for", "moves to", "lag"):
        table.add_column(name, justify="right" if name in {"epoch", "lag"} else "left")
    for task in found:
        table.add_row(
            task.task,
            task.owner or "-",
            str(task.epoch),
            f"[red]{task.state}[/red]" if task.state in PROBLEMS else task.state,
            "yes" if task.complete else "no",
            ", ".join(task.waits_for),
            task.moving_to or "",
            "" if task.lag is None else f"{task.lag:,}",
        )
    return table
