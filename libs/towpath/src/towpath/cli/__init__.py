"""The command `towpath`."""

import typer

from towpath.cli.broker import broker_app

__all__ = ["app", "main"]

app = typer.Typer(no_args_is_help=True, help="Stateful stream pipelines on Kafka that change size without a pause.")
app.add_typer(broker_app, name="broker")


@app.callback()
def _root() -> None:
    """Stateful stream pipelines on Kafka that change size without a pause."""


def main() -> None:
    """Runs the command line."""
    app()
