"""``towpath run``: all stages of a query as local processes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towpath.cli.options import (
    BootstrapOption,
    KafkaConfigOption,
    OptionOption,
    QueryArgument,
    SetOption,
    StateDirOption,
    parse_counts,
    parse_pairs,
)

if TYPE_CHECKING:
    from towpath.launch import Pipeline
    from towpath.stage.settings import StageSettings

_LOOK_S = 0.5
"""How often the processes' states are looked at."""


def run(
    query: QueryArgument,
    replicas: Annotated[
        list[str] | None, typer.Option(help="Replicas of a stage, stage=count; may be repeated")
    ] = None,
    bootstrap: BootstrapOption = None,
    state_dir: StateDirOption = None,
    run_dir: Annotated[Path, typer.Option(help="Directory of logs and control files")] = Path("build/run"),
    guarantee: Annotated[
        str | None, typer.Option(help="exactly-once or at-least-once", show_default="exactly-once")
    ] = None,
    kafka_config: KafkaConfigOption = None,
    set_: SetOption = None,
    option: OptionOption = None,
) -> None:
    """Run every stage of a query until Ctrl-C or SIGTERM; crashed replicas are started again.

    Example: towpath run queries.key_count --replicas count=2 --bootstrap 127.0.0.1:9092
    """
    from towpath.launch import Pipeline, programs_of
    from towpath.launch.topics import prepare_query_topics
    from towpath.query.loading import load_query
    from towpath.stage.connect import connect

    plan = load_query(query, parse_pairs(set_, "--set"))
    given = {"bootstrap": bootstrap, "state_dir": state_dir, "guarantee": guarantee, "kafka_config": kafka_config}
    settings = _check_options(query, plan.names[0], given, option)
    programs = programs_of(
        plan,
        query,
        parse_counts(replicas, "--replicas"),
        _stage_options(given, set_, option),
    )
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    typer.echo(
        f"{plan.app}: broker and topics at {settings.bootstrap} (waiting at most {settings.wait_s:g} s)", err=True
    )
    prepare_query_topics(plan, connect(settings.bootstrap, settings.kafka_config), stop, wait_s=settings.wait_s)
    with Pipeline(programs, run_dir / plan.app) as pipeline:
        typer.echo(f"{plan.app}: {len(programs)} processes; logs in {run_dir / plan.app}", err=True)
        status = _watch(pipeline, stop)
    typer.echo(f"{plan.app}: stopped", err=True)
    raise typer.Exit(status)


def _check_options(query: str, stage: str, given: Mapping[str, object], option: Sequence[str] | None) -> StageSettings:
    """The settings that every replica will have, so that what is wrong is said once and before anything starts."""
    from towpath.errors import SettingsError
    from towpath.stage.settings import load_settings

    settings = load_settings(parse_pairs(option, "--option"), given, {"query": query, "stage": stage})
    if settings.http_port:
        raise SettingsError(
            "http_port can't be set for all replicas at once: each takes a free port, and its log says which"
        )
    return settings


def _stage_options(given: Mapping[str, object], set_: Sequence[str] | None, option: Sequence[str] | None) -> list[str]:
    """The same as options of ``towpath stage``."""
    options = [
        part
        for name, value in given.items()
        if value is not None
        for part in (f"--{name.replace('_', '-')}", str(value))
    ]
    options += [part for pair in set_ or () for part in ("--set", pair)]
    return options + [part for pair in option or () for part in ("--option", pair)]


def _watch(pipeline: Pipeline, stop: threading.Event) -> int:
    """Report every change of a process until asked to stop, or until one can't go on."""
    seen: dict[str, tuple[str, int]] = {}
    while not stop.wait(_LOOK_S):
        for state in pipeline.states():
            now = (state.state, state.pid)
            if seen.get(state.name) == now:
                continue
            if state.name in seen and state.state == "RUNNING":
                typer.echo(f"{state.name} crashed and was started again (pid {state.pid})", err=True)
            elif state.state == "RUNNING":
                typer.echo(f"{state.name} runs (pid {state.pid})", err=True)
            seen[state.name] = now
            if state.given_up:
                return _report_end(pipeline, state.name, state.exit_status)
    return 0


def _report_end(pipeline: Pipeline, name: str, status: int) -> int:
    lines = pipeline.log_file(name).read_text(encoding="utf-8", errors="replace").splitlines()
    typer.echo(f"{name} ended with status {status}; its last lines:", err=True)
    for line in lines[-5:]:
        typer.echo(f"  {line}", err=True)
    return status or 1
