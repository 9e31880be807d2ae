"""`towpath broker`: a real single-node Kafka on the local JVM.

Exit codes: 0 done; 1 it failed while working; 2 something has to be changed first (a taken
port, missing Java, a wrong setting); `status` gives 0 when the broker answers, 1 when its
process exists but doesn't answer, 3 when it isn't running.
"""

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Annotated

import msgspec
import typer

from towpath.broker import (
    BrokerDiedError,
    BrokerRunningError,
    LocalBroker,
    Started,
)
from towpath.broker.settings import parse_setting

__all__ = ["broker_app"]

_STATUS_CODES = {"running": 0, "unresponsive": 1, "stopped": 3}
"""Exit codes of `status`: those that service managers use."""

_DEFAULT_DATA = Path("build/broker")
_WATCH_SECONDS = 0.2
"""Pause between two looks at a broker in the foreground: how late its death is noticed."""

broker_app = typer.Typer(no_args_is_help=True, help="A real Kafka without Docker: one node, on the local JVM.")

Data = Annotated[Path, typer.Option("--data", help="Directory for the broker's data, settings and logs.")]
Port = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="Port on 127.0.0.1; 0 is the last one, or any free one.")
]
Heap = Annotated[str, typer.Option("--heap", help="Bound of the JVM's heap, such as 512m or 2g.")]
Set = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A broker property; repeatable.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@broker_app.command()
def start(
    data: Data = _DEFAULT_DATA,
    port: Port = 0,
    heap: Heap = "512m",
    settings: Set = None,
    json: Json = False,
) -> None:
    """Starts the broker in the background and waits until it serves clients.

    Example: towpath broker start --port 9092
    """
    broker = _broker(data, port, heap, settings)
    started = broker.start()
    if json:
        _print_json({"status": "running", **_described(broker, started)})
    elif started.already_running:
        typer.echo(f"broker already runs on {started.bootstrap} (pid {started.pid})")
    else:
        typer.echo(_ready_line(broker, started))


@broker_app.command()
def stop(data: Data = _DEFAULT_DATA) -> None:
    """Stops the broker cleanly; its data stay.

    Example: towpath broker stop
    """
    was_running = LocalBroker(data).stop()
    typer.echo(f"broker in {data} stopped" if was_running else f"no broker runs in {data}")


@broker_app.command()
def status(data: Data = _DEFAULT_DATA, json: Json = False) -> None:
    """Tells whether the broker runs and answers; exit code 0, 1 (no answer) or 3 (not running).

    Example: towpath broker status --json
    """
    broker = LocalBroker(data)
    pid, state = broker.pid, broker.state
    if pid is None or state is None:
        word, line = "stopped", f"no broker runs in {data}"
        facts: dict[str, object] = {}
    else:
        word = "running" if broker.answers() else "unresponsive"
        line = f"broker {word} on {broker.bootstrap} (pid {pid}); log: {broker.log}"
        facts = {
            "bootstrap": broker.bootstrap, "port": state.port, "pid": pid, "log": str(broker.log),
            "started_at": state.started_at, "heap": state.heap,
        }  # fmt: skip
    if json:
        _print_json({"status": word, "data": str(broker.data_dir), **facts})
    else:
        typer.echo(line)
    raise typer.Exit(_STATUS_CODES[word])


@broker_app.command()
def run(data: Data = _DEFAULT_DATA, port: Port = 0, heap: Heap = "512m", settings: Set = None) -> None:
    """Runs the broker in the foreground until Ctrl-C or SIGTERM, and leaves no process behind.

    Example: towpath broker run --port 9092 --heap 1g
    """
    with _stop_signals():
        broker = _broker(data, port, heap, settings, tied=True)
        if broker.pid is not None:
            raise BrokerRunningError(
                f"a broker already runs in {data} on {broker.bootstrap}: stop it first, or name another --data"
            )
        with contextlib.suppress(KeyboardInterrupt):
            typer.echo(_ready_line(broker, broker.start()))
            _watch(broker)
        _ignore_stop_signals()
        broker.stop()


def _watch(broker: LocalBroker) -> None:
    while broker.pid is not None:
        time.sleep(_WATCH_SECONDS)
    raise BrokerDiedError(f"the broker in {broker.data_dir} ended by itself: see {broker.log}")


def _broker(data: Path, port: int, heap: str, settings: list[str] | None, *, tied: bool = False) -> LocalBroker:
    extra = dict(parse_setting(text) for text in settings or [])
    return LocalBroker(data, port, heap, extra, notify=lambda text: typer.echo(text, err=True), tied=tied)


def _described(broker: LocalBroker, started: Started) -> dict[str, object]:
    return {
        "bootstrap": started.bootstrap,
        "port": int(started.bootstrap.rpartition(":")[2]),
        "pid": started.pid,
        "data": str(broker.data_dir),
        "log": str(broker.log),
        "already_running": started.already_running,
        "seconds": round(started.seconds, 3),
    }


def _ready_line(broker: LocalBroker, started: Started) -> str:
    return f"broker ready on {started.bootstrap} (pid {started.pid}, {started.seconds:.1f} s); log: {broker.log}"


def _print_json(facts: dict[str, object]) -> None:
    typer.echo(msgspec.json.encode(facts).decode())


@contextlib.contextmanager
def _stop_signals() -> Iterator[None]:
    """Makes SIGTERM and SIGHUP end the foreground as Ctrl-C does; restores all handlers afterwards."""
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, _interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _ignore_stop_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
