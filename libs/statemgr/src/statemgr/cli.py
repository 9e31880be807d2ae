"""The command ``statemgr``."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path
from types import FrameType
from typing import Annotated

try:
    import typer
except ModuleNotFoundError:
    sys.exit("error: the command needs more packages: pip install 'statemgr[serve]'")

from statemgr.errors import SecurityError, StateError

EXIT_STOPPED = 1
EXIT_USAGE = 2

EXIT_CRASHED = 70
"""EX_SOFTWARE of sysexits.h: an error that nobody foresaw. Python's own 1 would say that a restart does not help."""

app = typer.Typer(
    no_args_is_help=True,
    help="State of stream processors that moves while it is used.",
    pretty_exceptions_enable=False,
)


@app.callback()
def _root() -> None:
    """State of stream processors that moves while it is used."""


@app.command()
def serve(
    app: Annotated[str, typer.Option(help="Application whose control log is followed", envvar="TOWPATH_APP")],
    replica: Annotated[str, typer.Option(help="Name of the replica whose stores these are", envvar="TOWPATH_REPLICA")],
    state_dir: Annotated[Path, typer.Option(help="The replica's own directory: <state dir>/<app>/<replica>")],
    bootstrap: Annotated[
        str, typer.Option(help="Kafka bootstrap servers, host:port,…", envvar="TOWPATH_BOOTSTRAP")
    ] = "127.0.0.1:9092",
    kafka_config: Annotated[
        Path | None,
        typer.Option(help="File of key=value Kafka client properties (TLS, SASL)", envvar="TOWPATH_KAFKA_CONFIG"),
    ] = None,
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0: all of this machine", envvar="TOWPATH_STATE_HOST")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(help="Port to listen at; 0: a free one", min=0, max=65535, envvar="TOWPATH_STATE_PORT"),
    ] = 0,
    advertise: Annotated[
        str, typer.Option(help="Host under which others reach it", show_default="--host, or this machine's name")
    ] = "",
    coordinator: Annotated[
        str, typer.Option(help="URL of the coordinator, for heartbeats", envvar="TOWPATH_COORDINATOR")
    ] = "",
    leave_after_s: Annotated[
        float, typer.Option(help="After SIGTERM, longest time to serve copies that others still need", min=0)
    ] = 0.0,
    die_with_parent: Annotated[bool, typer.Option(help="Stop when the parent process dies", hidden=True)] = False,
) -> None:
    """Serve the stores of a replica to other replicas until SIGTERM: its state manager.

    It reads beside the replica, also when that has stopped or died, and writes its address to statemgr.json in the
    replica's directory. Outside loopback it needs TOWPATH_TOKEN_FILE, or TOWPATH_TLS_CERT, _KEY and _CA.

    Example: statemgr serve --app shop --replica count-0 --state-dir build/state/shop/count-0
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # what matters is raised, and said in one line
    from statemgr.deathsig import die_with_parent as tie
    from statemgr.sidecar.serve import ServeError, ServeSettings
    from statemgr.sidecar.serve import serve as run

    if die_with_parent:
        tie()
    settings = ServeSettings(
        app=app,
        replica=replica,
        directory=state_dir,
        bootstrap=bootstrap,
        kafka_config=kafka_config,
        host=host,
        port=port,
        advertise=advertise,
        coordinator=coordinator,
        linger_s=leave_after_s,
    )
    try:
        run(settings)
    except StateError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(EXIT_USAGE if isinstance(error, (ServeError, SecurityError)) else EXIT_STOPPED) from error
    except Exception as error:
        traceback.print_exc()
        typer.echo(f"crashed: {type(error).__name__}: {error}; a supervisor starts it again", err=True)
        raise typer.Exit(EXIT_CRASHED) from error


@app.command(context_settings={"ignore_unknown_options": True})
def faust(
    state_dir: Annotated[
        Path,
        typer.Option(
            help="The worker's directory of stores: statemgr in Faust's directory of tables",
            envvar="STATEMGR_DIRECTORY",
        ),
    ],
    command: Annotated[
        list[str] | None, typer.Argument(help="Start this worker, and end some time after it: -- faust -A app worker")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0: all of this machine")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen at; 0: a free one", min=0, max=65535)] = 0,
    advertise: Annotated[
        str, typer.Option(help="Host under which others reach it", show_default="--host, or this machine's name")
    ] = "",
    absent_s: Annotated[
        float, typer.Option(help="Stay so long after a worker that was killed: more than its session time-out", min=0)
    ] = 90.0,
    quiet_s: Annotated[float, typer.Option(help="Without a worker, leave after so long without a request", min=0)] = 15,
    linger_s: Annotated[float, typer.Option(help="Without a worker, leave after so long in any case", min=0)] = 600.0,
) -> None:
    """Serve the tables of a Faust worker with store="statemgr://" to other workers: its state manager.

    A worker starts one by itself. Start it by hand where it must outlive the worker's container, or as the parent of
    the worker; the worker then needs STATEMGR_DIRECTORY, and STATEMGR_EXTERNAL=1. Outside loopback both need the same
    TOWPATH_TOKEN_FILE, or TOWPATH_TLS_CERT, _KEY and _CA.

    Example: statemgr faust --state-dir /data/statemgr -- faust -A count worker -l info
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from statemgr.faust.holder import HolderSettings, hold

    settings = HolderSettings(state_dir, host, port, advertise, absent_s, quiet_s, linger_s)
    try:
        status = hold(settings, command or [])
    except (StateError, OSError, ValueError) as error:
        typer.echo(f"error: {error}", err=True)
        wrong = isinstance(error, ValueError)  # how it was called, or its environment
        raise typer.Exit(EXIT_USAGE if wrong else EXIT_STOPPED) from error
    raise typer.Exit(status)


def _leave(_signal: int, _frame: FrameType | None) -> None:
    """A stop signal while the libraries are still being loaded: nothing was begun, so there is nothing to finish."""
    raise SystemExit(0)


def main() -> None:
    """Run the command line; an error is one line on standard error, never a stack trace alone."""
    app()


if __name__ == "__main__":
    main()
