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
from towpath.cli.spark import (
    SERVICES,
    SPARK,
    BatchOption,
    CheckpointOption,
    EngineOption,
    MasterOption,
    PrintOption,
    SparkOption,
    UntilEndOption,
    check_engine,
    run_on_spark,
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
    engine: EngineOption = SERVICES,
    batch: BatchOption = False,
    master: MasterOption = None,
    print_: PrintOption = False,
    until_end: UntilEndOption = False,
    checkpoint: CheckpointOption = None,
    spark: SparkOption = None,
) -> None:
    """Run a query until Ctrl-C or SIGTERM: its coordinator and every stage; crashed replicas are started again.

    `towpath scale` changes how many replicas there are while it runs.

    With --engine spark PySpark runs it instead, as a stream or, with --batch, once over all that is there.

    Example: towpath run queries.key_count --replicas count=2 --bootstrap 127.0.0.1:9092
    """
    from towpath.launch.running import Running, run_coordinated, run_static
    from towpath.launch.topics import prepare_query_topics
    from towpath.query.loading import load_query
    from towpath.stage.connect import connect
    from towpath.stage.outside import check_outside
    from towpath.stage.registry_settings import check_registry

    of_services = {
        "--replicas": replicas,
        "--static": static,
        "--guarantee": guarantee,
        "--option": option,
    }
    of_spark = {
        "--batch": batch,
        "--master": master,
        "--print": print_,
        "--until-end": until_end,
        "--checkpoint": checkpoint,
        "--spark": spark,
    }
    check_engine(engine, of_services, of_spark)
    if engine == SPARK:
        run_on_spark(
            query,
            parse_pairs(set_, "--set"),
            bootstrap=bootstrap,
            kafka_config=kafka_config,
            batch=batch,
            master=master,
            print_=print_,
            until_end=until_end,
            checkpoint=checkpoint,
            options=spark,
        )
        return
    plan = load_query(query, parse_pairs(set_, "--set"))
    given = {"bootstrap": bootstrap, "state_dir": state_dir, "guarantee": guarantee, "kafka_config": kafka_config}
    settings = _check_options(query, plan.names[0], given, option)
    for each in plan.stages:
        check_outside(each)
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
    for each in plan.stages:
        check_registry(each, settings)
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
