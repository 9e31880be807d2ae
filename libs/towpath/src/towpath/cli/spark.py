"""Spark as the engine of a query, for ``towpath run`` and ``towpath plan``; and ``towpath engines``."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from towpath.cli.options import DEFAULT_BOOTSTRAP, JsonOption, SetOption, parse_pairs

if TYPE_CHECKING:
    from towpath.spark.run import RowTaker

SERVICES, SPARK = "services", "spark"

EngineOption = Annotated[
    str, typer.Option(help="What runs the query: services (Towpath's own stages) or spark (PySpark)")
]
BatchOption = Annotated[
    bool, typer.Option("--batch", help="Spark: read the sources from beginning to end, once, instead of streaming")
]
MasterOption = Annotated[
    str | None, typer.Option(help="Spark: where it runs, e.g. local[2], spark://host:7077", show_default="local[*]")
]
PrintOption = Annotated[
    bool, typer.Option("--print", help="Spark: print rows of sinks as JSON lines instead of writing them to Kafka")
]
UntilEndOption = Annotated[
    bool, typer.Option("--until-end", help="Spark streaming: stop when all that is there has been read")
]
CheckpointOption = Annotated[
    Path | None,
    typer.Option(help="Spark streaming: directory of progress and state", show_default="build/spark/<application>"),
]
SparkOption = Annotated[
    list[str] | None,
    typer.Option(help="Spark: any setting, name=value; kafka.* goes to its Kafka source and sink; may be repeated"),
]


def check_engine(engine: str, of_services: Mapping[str, object], of_spark: Mapping[str, object]) -> None:
    """Refuse an engine that there is not, and options that the other one has.

    Args:
        engine: as given.
        of_services: option → value, for those that only services know; unset ones are false.
        of_spark: the same for Spark.

    Raises:
        SettingsError: naming option and engine.
    """
    from towpath.errors import SettingsError
    from towpath.query.errors import nearest

    if engine not in (SERVICES, SPARK):
        known = (SERVICES, SPARK)
        raise SettingsError(f"--engine {engine}: expected one of {', '.join(known)}{nearest(engine, known)}")
    wrong = of_spark if engine == SERVICES else of_services
    for option, value in wrong.items():
        if value:
            other = SPARK if engine == SERVICES else SERVICES
            raise SettingsError(f"{option} is for --engine {other}, and this is --engine {engine}")


def run_on_spark(
    name: str,
    settings: Mapping[str, Any],
    *,
    bootstrap: str | None,
    kafka_config: Path | None,
    batch: bool,
    master: str | None,
    print_: bool,
    until_end: bool,
    checkpoint: Path | None,
    options: Sequence[str] | None,
) -> None:
    """Run a query on Spark; what it can't do is said before anything starts."""
    from towpath.errors import SettingsError
    from towpath.query.loading import find_query
    from towpath.spark.judge import Mode, graph_of, require
    from towpath.spark.session import DEFAULT_MASTER, SessionSettings, check_installed, running_session
    from towpath.spark.topics import prepare_topics
    from towpath.stage.connect import connect

    if batch and (until_end or checkpoint is not None):
        raise SettingsError("--until-end and --checkpoint are for streaming, and this is --batch")
    query = find_query(name, settings)
    graph, plan = graph_of(query), query.plan()
    require(graph, Mode.BATCH if batch else Mode.STREAMING, name)
    given = _spark_settings(options)
    kafka = {key: value for key, value in given.items() if key.startswith("kafka.")}
    secured = _kafka_options(kafka_config)
    check_installed()
    servers = bootstrap or DEFAULT_BOOTSTRAP
    admin = connect(servers, kafka_config).admin()
    try:
        prepare_topics(admin, graph, sinks=not print_)
    finally:
        admin.close()
    session = SessionSettings(plan.app, master or DEFAULT_MASTER, {k: v for k, v in given.items() if k not in kafka})
    typer.echo(f"{plan.app}: Spark at {session.master}, broker at {servers}", err=True)
    with running_session(session) as spark:
        from towpath.spark.run import Job, run_batch, run_streaming

        job = Job(plan, graph, servers, {**secured, **kafka}, _printer() if print_ else None)
        if batch:
            run_batch(spark, job)
        else:
            place = checkpoint or Path("build/spark") / plan.app
            run_streaming(spark, job, place.absolute(), until_end=until_end, stopping=_stop_signal().wait)
    typer.echo(f"{plan.app}: {'done' if batch else 'stopped'}", err=True)


def _spark_settings(pairs: Sequence[str] | None) -> dict[str, str]:
    """What ``--spark`` says.

    Raises:
        SettingsError: one is not of the form name=value, or is a secret, which others can read on a command line.
    """
    from statemgr.kafka.java import is_secret
    from towpath.errors import SettingsError

    parse_pairs(pairs, "--spark")
    given = dict(pair.split("=", 1) for pair in pairs or ())
    for name in given:
        if is_secret(name):
            raise SettingsError(
                f"--spark {name}: a secret, which others can read on a command line; put it into a file of client "
                "properties and name that by --kafka-config"
            )
    return given


def _kafka_options(config: Path | None) -> dict[str, str]:
    """Security settings of a file of client properties, for Spark's Kafka source and sink.

    Raises:
        SettingsError: the file can't be read, or holds what Spark's client can't do.
    """
    from statemgr.kafka.java import spark_options
    from towpath.errors import SettingsError
    from towpath.stage.settings import read_properties

    try:
        return spark_options(read_properties(config))
    except ValueError as error:
        raise SettingsError(f"{error} (from {config})") from error


def plan_on_spark(name: str, settings: Mapping[str, Any], form: str) -> str:
    """How Spark runs each step of a query, in both modes, as text or JSON."""
    from towpath.errors import SettingsError
    from towpath.query.loading import find_query
    from towpath.spark.report import plan_dict, plan_text

    query = find_query(name, settings)
    if form not in ("text", "json"):
        raise SettingsError(f"--format {form}: expected one of text, json with --engine {SPARK}")
    return plan_text(query) if form == "text" else json.dumps(plan_dict(query), indent=2, ensure_ascii=False)


def engines(
    package: Annotated[str, typer.Argument(help="Package whose modules hold queries, or a single query")] = "queries",
    set_: SetOption = None,
    json_: JsonOption = False,
) -> None:
    """Show which queries Spark can run, as a stream and as a batch job, and why not.

    Example: towpath engines queries
    """
    from towpath.spark.report import table_dicts, table_text

    found = table_dicts(package, parse_pairs(set_, "--set"))
    typer.echo(json.dumps(found, indent=2, ensure_ascii=False) if json_ else table_text(found))


def _stop_signal() -> threading.Event:
    """Set by Ctrl-C or SIGTERM; asked for when Spark has started, which has a handler of its own, for batch jobs."""
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _printer() -> RowTaker:
    def take(topic: str, row: str) -> None:
        typer.echo(f'{{"topic": {json.dumps(topic)}, "row": {row}}}')

    return take
