"""The command ``towpath``."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import Annotated

import typer

from statemgr.errors import StateError, StopRequestedError
from towpath.cli.broker import broker_app
from towpath.cli.coordinator import coordinator
from towpath.cli.migrations import migrations
from towpath.cli.plan import plan
from towpath.cli.pod import PASSED_ON, pod
from towpath.cli.run import run
from towpath.cli.scale import move, scale
from towpath.cli.spark import engines
from towpath.cli.stage import stage
from towpath.cli.state import state_app
from towpath.cli.tasks import tasks
from towpath.cli.topics import topics
from towpath.errors import TowpathError

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    help="Stateful stream pipelines on Kafka that change size without a pause.",
    pretty_exceptions_enable=False,
)
app.add_typer(broker_app, name="broker")
app.add_typer(state_app, name="state")
app.command()(coordinator)
app.command()(engines)
app.command()(migrations)
app.command()(move)
app.command()(plan)
app.command(context_settings=PASSED_ON)(pod)
app.command()(run)
app.command()(scale)
app.command()(stage)
app.command()(tasks)
app.command()(topics)


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"towpath {version('towpath')}")
        raise typer.Exit


@app.callback()
def _root(
    tell_version: Annotated[
        bool, typer.Option("--version", help="Print the version", callback=_tell_version, is_eager=True)
    ] = False,
) -> None:
    """Stateful stream pipelines on Kafka that change size without a pause."""


def main() -> None:
    """Run the command line; an error is one line on standard error, never a stack trace alone."""
    try:
        app()
    except StopRequestedError as stopped:
        typer.echo(str(stopped), err=True)
    except (StateError, TowpathError) as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(getattr(error, "exit_status", TowpathError.exit_status))
