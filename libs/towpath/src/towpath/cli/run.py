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
    from towpath.stage.settings import StageSettings


def run(
    query: QueryArgument,
    replicas: Annotated[
        list[str] | None, typer.Option(help="Replicas of a stage at the start, stage=count; may be repeated")
    ] = None,
    bootstrap: BootstrapOption = None,
    state_dir: StateDirOption = None,
    run_dir: Annotated[Path, typer.Option(help="Directory of logs and control files")] = Path("build/run"),
    coordinator_port: Annotated[
        int, typer.Option(help="Port of the coordinator; 0: a free one", min=0, max=65535)
    ] = 7070,
    static: Annotated[
        bool, typer.Option("--static", help="Without coordinator and state managers: sizes are fixed")
    ] = False,
    guarantee: Annotated[
        str | None, typer.Option(help="exactly-once or at-least-once", show_default="exactly-once")
    ] = None,
    kafka_config: KafkaConfigOption = None,
    set_: SetOption = None,
    option: OptionOption = None,
) -> None:
    """Run a query until Ctrl-C or SIGTERM: its coordinator and every stage; crashed replicas are started again.

    `towpath scale` changes how many replicas there are while it runs.

    Example: towpath run queries.key_count --replicas count=2 --bootstrap 127.0.0.1:9092
    """
    from towpath.launch.running import Running, run_coordinated, run_static
    from towpath.launch.topics import prepare_query_topics
    from towpath.query.loading import load_query
    from towpath.stage.connect import connect

    plan = load_query(query, parse_pairs(set_, "--set"))
    given = {"bootstrap": bootstrap, "state_dir": state_dir, "guarantee": guarantee, "kafka_config": kafka_config}
    settings = _check_options(query, plan.names[0], given, option)
    stop = threading.Event()
    running = Running(
        plan=plan,
        query=query,
        asked=parse_counts(replicas, "--replicas"),
        stage_options=_options(given, set_, option),
        coordinator_options=_options({name: given[name] for name in ("bootstrap", "kafka_config")}, set_, None),
        run_dir=run_dir / plan.app,
        stop=stop,
        say=lambda text: typer.echo(text, err=True),
    )
    running.counts  # noqa: B018 - what is wrong with the numbers is said before anything starts
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    kafka = connect(settings.bootstrap, settings.kafka_config)
    running.say(f"{plan.app}: broker and topics at {settings.bootstrap} (waiting at most {settings.wait_s:g} s)")
    prepare_query_topics(plan, kafka, stop, wait_s=settings.wait_s)
    status = run_static(running) if static else run_coordinated(running, coordinator_port)
    running.say(f"{plan.app}: stopped")
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


def _options(given: Mapping[str, object], set_: Sequence[str] | None, option: Sequence[str] | None) -> list[str]:
    """The same as options of ``towpath stage``."""
    options = [
        part
        for name, value in given.items()
        if value is not None
        for part in (f"--{name.replace('_', '-')}", str(value))
    ]
    options += [part for pair in set_ or () for part in ("--set", pair)]
    return options + [part for pair in option or () for part in ("--option", pair)]
