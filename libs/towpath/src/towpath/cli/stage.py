"""``towpath stage``: one replica of one stage, as a container runs it."""

from __future__ import annotations

import os
import signal
from types import FrameType
from typing import Annotated

import typer

from towpath.cli.options import (
    BootstrapOption,
    KafkaConfigOption,
    OptionOption,
    QueryArgument,
    SetOption,
    StateDirOption,
    parse_pairs,
)

POLARS_THREADS = "1"
"""A replica is made for one core; more replicas, not more threads, use more cores. Read when Polars is loaded."""


def stage(
    query: QueryArgument,
    stage: Annotated[str, typer.Option(help="Stage to run", envvar="TOWPATH_STAGE")],
    bootstrap: BootstrapOption = None,
    coordinator: Annotated[
        str | None,
        typer.Option(help="URL of the coordinator that says what this replica owns", show_default="a static plan"),
    ] = None,
    replica: Annotated[
        str | None,
        typer.Option(
            help="Name of this replica under a coordinator, the same after a restart", show_default="host name"
        ),
    ] = None,
    replica_index: Annotated[
        int | None, typer.Option(help="Index of this replica in a static plan", show_default="0")
    ] = None,
    replica_count: Annotated[
        int | None, typer.Option(help="Number of replicas of a static plan", show_default="1")
    ] = None,
    state_dir: StateDirOption = None,
    guarantee: Annotated[
        str | None, typer.Option(help="exactly-once or at-least-once", show_default="exactly-once")
    ] = None,
    start_from: Annotated[
        str | None, typer.Option(help="Where a task that never ran begins: earliest or latest", show_default="earliest")
    ] = None,
    on_input_loss: Annotated[
        str | None, typer.Option(help="When retention deleted needed records: stop or skip", show_default="stop")
    ] = None,
    http_host: Annotated[
        str | None, typer.Option(help="Address of health and metrics", show_default="127.0.0.1")
    ] = None,
    http_port: Annotated[
        int | None, typer.Option(help="Port of health and metrics; 0: a free one", show_default="0")
    ] = None,
    kafka_config: KafkaConfigOption = None,
    set_: SetOption = None,
    option: OptionOption = None,
    die_with_parent: Annotated[bool, typer.Option(help="Stop when the parent process dies", hidden=True)] = False,
) -> None:
    """Run one replica of a stage until SIGTERM; it then commits and exits with 0 within 10 seconds.

    Under a coordinator it first waits, at most drain_s, for its tasks to be moved away.

    Every option may also come from the environment as TOWPATH_<NAME>.

    Example: towpath stage queries.key_count --stage count --replica-index 0 --replica-count 2
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _leave)
    os.environ.setdefault("POLARS_MAX_THREADS", POLARS_THREADS)
    from statemgr.deathsig import die_with_parent as tie
    from towpath.stage.collector import collect_seldom
    from towpath.stage.service import run_stage
    from towpath.stage.settings import load_settings

    if die_with_parent:
        tie()
    explicit = {
        "query": query,
        "stage": stage,
        "query_settings": parse_pairs(set_, "--set"),
        "bootstrap": bootstrap,
        "coordinator": coordinator,
        "replica_name": replica,
        "replica_index": replica_index,
        "replica_count": replica_count,
        "state_dir": state_dir,
        "guarantee": guarantee,
        "start_from": start_from,
        "on_input_loss": on_input_loss,
        "http_host": http_host,
        "http_port": http_port,
        "kafka_config": kafka_config,
    }
    collect_seldom()
    raise typer.Exit(run_stage(load_settings(parse_pairs(option, "--option"), explicit)))


def _leave(_signal: int, _frame: FrameType | None) -> None:
    """A stop signal while the runtime is still being loaded: nothing was begun, so there is nothing to finish."""
    raise SystemExit(0)
