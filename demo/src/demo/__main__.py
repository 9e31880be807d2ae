"""``python -m demo``: the main job. Progress goes to standard error, the result is the last line of standard output."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from demo.console import Console
from demo.settings import DemoSettings
from loadgen.errors import LoadgenError
from statemgr.errors import StateError
from towpath.errors import TowpathError

EXIT_WRONG = 1
EXIT_UNAVAILABLE = 2
EXIT_INTERRUPTED = 130


def main(
    rate: Annotated[int, typer.Option(min=1, help="Events per second")] = DemoSettings.rate,
    seconds: Annotated[int, typer.Option(min=1, help="Length of the load")] = DemoSettings.seconds,
    replicas: Annotated[int, typer.Option(min=1, help="Replicas of the counter")] = DemoSettings.replicas,
    seed: Annotated[int, typer.Option(help="Seed of the generator")] = DemoSettings.seed,
    work: Annotated[
        Path, typer.Option(help="Directory for everything a run leaves; emptied first")
    ] = DemoSettings.work,
) -> None:
    """Broker, load, key_count, latency job; then outputs and final state against a batch computation.

    Example: python -m demo --rate 5000 --seconds 20
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from demo.run import run_demo

    console = Console()
    try:
        result = run_demo(DemoSettings(rate=rate, seconds=seconds, replicas=replicas, seed=seed, work=work), console)
    except (TowpathError, StateError, LoadgenError) as error:
        console.say(f"error: {error}")
        sys.exit(EXIT_UNAVAILABLE)
    except KeyboardInterrupt:
        console.say("interrupted; everything is stopped")
        sys.exit(EXIT_INTERRUPTED)
    for problem in result.problems:
        console.say(f"problem: {problem}")
    sys.stdout.write(result.to_json() + "\n")
    sys.exit(0 if result.ok else EXIT_WRONG)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
app.command()(main)

if __name__ == "__main__":
    app()
