"""The command ``towpath``."""

from __future__ import annotations

import sys

import typer

from statemgr.errors import StateError
from towpath.cli.broker import broker_app
from towpath.cli.plan import plan
from towpath.cli.run import run
from towpath.cli.stage import stage
from towpath.cli.state import state_app
from towpath.cli.topics import topics
from towpath.errors import SettingsError, TowpathError
from towpath.query.errors import QueryError

__all__ = ["app", "main"]

EXIT_FAILED = 1
EXIT_USAGE = 2

app = typer.Typer(
    no_args_is_help=True,
    help="Stateful stream pipelines on Kafka that change size without a pause.",
    pretty_exceptions_enable=False,
)
app.add_typer(broker_app, name="broker")
app.add_typer(state_app, name="state")
app.command()(plan)
app.command()(run)
app.command()(stage)
app.command()(topics)


@app.callback()
def _root() -> None:
    """Stateful stream pipelines on Kafka that change size without a pause."""


def main() -> None:
    """Run the command line; an error is one line on standard error, never a stack trace alone."""
    try:
        app()
    except (SettingsError, QueryError) as error:
        _fail(error, EXIT_USAGE)
    except (StateError, TowpathError) as error:
        _fail(error, EXIT_FAILED)


def _fail(error: Exception, status: int) -> None:
    typer.echo(f"error: {error}", err=True)
    sys.exit(status)
