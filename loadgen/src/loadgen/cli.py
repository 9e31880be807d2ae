"""`towpath-load`: load, latency, receive and verify, beside any pipeline on Kafka."""

from __future__ import annotations

import json
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from loadgen.errors import LoadgenError, OptionError
from nexmark import NexmarkError

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import SparkSession

    from loadgen.load import LoadResult, Progress
    from loadgen.oracle import VerifyResult

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="NEXMark load, latency measurement and batch verification by PySpark.",
)
console = Console(stderr=True)

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_TOPIC = "nexmark-events"

Bootstrap = Annotated[
    str, typer.Option(envvar="TOWPATH_BOOTSTRAP", help="Address of the Kafka brokers.", show_default=True)
]
KafkaConfig = Annotated[
    Path | None,
    typer.Option(envvar="TOWPATH_KAFKA_CONFIG", help="File of key=value Kafka client properties (TLS, SASL)."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line on stdout.")]
Memory = Annotated[int, typer.Option(help="Heap of Spark's JVM in MiB.", min=512)]
Cores = Annotated[int, typer.Option(help="Threads of Spark.", min=1)]


class KeyOption(StrEnum):
    """Values of `--key`."""

    none = "none"
    auction = "auction"
    bidder = "bidder"


class EmitOption(StrEnum):
    """Values of `--emit`."""

    batch = "batch"
    each = "each"


class GuaranteeOption(StrEnum):
    """Values of `--guarantee`."""

    exactly_once = "exactly_once"
    at_least_once = "at_least_once"


@app.command(
    epilog="Examples: `towpath-load load --profile 'constant(10000)' --duration 60s --create-topic partitions=8` · "
    "`towpath-load load --rate max --events 2M`"
)
def load(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    kafka_config: KafkaConfig = None,
    topic: Annotated[str, typer.Option(help="Topic to load.")] = DEFAULT_TOPIC,
    rate: Annotated[str, typer.Option(help="Events per second, or `max` for all it can.")] = "10000",
    profile: Annotated[
        str | None,
        typer.Option(
            help="Rate over time instead of --rate: constant(r), step(a,b,at_s), sine(a,b,period_s), "
            "square(a,b,period_s), spike(a,b,at_s,for_s), rescale(a,b)."
        ),
    ] = None,
    duration: Annotated[str | None, typer.Option(help="Length, for example 60s or 2m.")] = None,
    events: Annotated[str | None, typer.Option(help="Number of events, for example 250k.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same events.", min=0)] = 42,
    key: Annotated[
        KeyOption,
        typer.Option(help="none: event k goes to partition k mod n; else the field's text, placed by murmur2."),
    ] = KeyOption.none,
    create_topic: Annotated[
        str | None, typer.Option(help="partitions=N: create the topic (LogAppendTime, kept for ever) if missing.")
    ] = None,
    generator: Annotated[
        list[str] | None,
        typer.Option("--set", help="Generator setting NAME=VALUE, e.g. hot_auction_ratio=50 for hot keys; repeatable."),
    ] = None,
    measure: Annotated[bool, typer.Option(help="Read the topic at the end and report the load's own delay.")] = True,
    cores: Cores = 2,
    memory: Memory = 1024,
    as_json: AsJson = False,
) -> None:
    """Write NEXMark events into a topic at their intended times, or as fast as it goes.

    Each event carries its intended time (`sched_ms`). Time zero is fixed when Spark has started and warmed up.
    """
    from loadgen.cluster import Cluster
    from loadgen.load import LoadSettings, run_load
    from loadgen.options import SourceOptions, parse_count, parse_duration_ms
    from loadgen.source import generator_config
    from loadgen.topics import parse_create

    with _errors():
        full_speed = rate == "max" and profile is None
        source = SourceOptions(
            seed=seed,
            profile=_profile(rate, profile),
            duration_ms=parse_duration_ms(duration, "--duration") if duration else None,
            events=parse_count(events, "--events") if events else None,
            key=key.value,
            generator=_settings(generator or []),
        )
        generator_config(source)
        settings = LoadSettings(
            Cluster(bootstrap, kafka_config),
            topic,
            source,
            full_speed=full_speed,
            create_partitions=parse_create(create_topic) if create_topic else None,
            cores=cores,
            measure=measure,
        )
        with _session("towpath-load", cores, memory) as spark, _stop_signals() as stop, _progress() as show:
            result = run_load(spark, settings, show, stop)
        _print_load(result)
        if as_json:
            typer.echo(result.to_json())


@app.command(
    epilog="Examples: `towpath-load latency key-count --input-topic nexmark-events --until-idle 10s --out build/run` · "
    "`towpath-load latency key-count --batch --out build/run`"
)
def latency(
    topics: Annotated[list[str], typer.Argument(help="Sink topics.")],
    out: Annotated[Path, typer.Option(help="Directory for windows.parquet, report.html, report.png, checkpoint.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    kafka_config: KafkaConfig = None,
    input_topic: Annotated[str | None, typer.Option(help="Topic of the load: reports the load's own delay.")] = None,
    batch: Annotated[bool, typer.Option("--batch/--follow", help="Measure what is there and end, or follow.")] = False,
    until_idle: Annotated[str | None, typer.Option(help="End when no record came for so long.")] = None,
    duration: Annotated[str | None, typer.Option(help="End after so long.")] = None,
    trigger: Annotated[str, typer.Option(help="Time between micro-batches; each costs CPU.")] = "4s",
    from_start: Annotated[bool, typer.Option(help="From the topics' first records, else from their end.")] = True,
    visible: Annotated[bool, typer.Option(help="Stamp receive times, for visible latency.")] = True,
    allow_data_loss: Annotated[bool, typer.Option(help="Go on when records are gone, and count them.")] = False,
    output_topic: Annotated[str | None, typer.Option(help="Send each second's figures there, as JSON.")] = None,
    cores: Cores = 2,
    memory: Memory = 1024,
    as_json: AsJson = False,
) -> None:
    """Report p50, p95, p99 and max per second of append, for committed records only.

    *append*: the output is in the log; *visible*: a read_committed reader has it; *load*: the generator's share.
    SIGTERM or Ctrl-C ends it with all that was there, and the report is written.
    """
    from loadgen.cluster import Cluster
    from loadgen.latency import LatencySettings, follow, measure_batch
    from loadgen.options import parse_duration_ms

    with _errors():
        settings = LatencySettings(
            Cluster(bootstrap, kafka_config),
            tuple(topics),
            out,
            input_topic=input_topic,
            from_start=from_start,
            visible=visible,
            trigger_s=parse_duration_ms(trigger, "--trigger") / 1000,
            fail_on_data_loss=not allow_data_loss,
            output_topic=output_topic,
        )
        with _session("towpath-latency", cores, memory) as spark, _stop_signals() as stop:
            if batch:
                result = measure_batch(spark, settings)
            else:
                result = follow(
                    spark,
                    settings,
                    _print_window,
                    stop,
                    idle_s=_seconds(until_idle, "--until-idle"),
                    duration_s=_seconds(duration, "--duration"),
                    on_ready=lambda: console.print("[bold]following[/bold]; Ctrl-C ends"),
                )
        console.print(_totals_table(result.frames.totals))
        for name, path in result.files.items():
            console.print(f"{name}: {path}", highlight=False)
        if as_json:
            typer.echo(json.dumps(result.to_dict()))


@app.command(
    epilog="Example: `towpath-load receive key-count --out build/run`, and later `latency --batch --out build/run`"
)
def receive(
    topics: Annotated[list[str], typer.Argument(help="Sink topics.")],
    out: Annotated[Path, typer.Option(help="Directory of the run; stamps go into receipts/ in it.")],
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    kafka_config: KafkaConfig = None,
) -> None:
    """Only stamp when a read_committed reader has each record, without Spark, until SIGTERM or Ctrl-C.

    Costs a few per cent of a core at 10 k records/s; `latency --batch` uses the stamps after the run.
    """
    from loadgen import receiver
    from loadgen.cluster import Cluster
    from loadgen.topics import end_offsets

    with _errors(), _stop_signals() as stop:
        cluster = Cluster(bootstrap, kafka_config)
        start = {topic: end_offsets(cluster, topic, committed=True) for topic in topics}
        total = receiver.receive(cluster, start, out / "receipts", stop.is_set)
        console.print(f"{total:,} records stamped")


@app.command(
    epilog="Example: `towpath-load verify key_count --sink-topic key-count --state build/state.parquet --json`"
)
def verify(
    query: Annotated[str, typer.Argument(help="key_count, map_map, q0, q1, q2 or q22.")],
    sink_topic: Annotated[str | None, typer.Option(help="The query's output, where that is a topic.")] = None,
    files: Annotated[
        Path | None, typer.Option(help="The query's output, where that is a directory of Parquet files.")
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    kafka_config: KafkaConfig = None,
    input_topic: Annotated[str, typer.Option(help="The query's input.")] = DEFAULT_TOPIC,
    state: Annotated[
        Path | None, typer.Option(help="Final state as Parquet: columns table, partition, key, value.")
    ] = None,
    emit: Annotated[EmitOption, typer.Option(help="each: every input has its own output.")] = EmitOption.batch,
    guarantee: Annotated[
        GuaranteeOption, typer.Option(help="at_least_once: outputs may repeat.")
    ] = GuaranteeOption.exactly_once,
    cores: Cores = 2,
    memory: Memory = 1536,
    as_json: AsJson = False,
) -> None:
    """Compare a sink topic (and a final state), or files, with a batch computation over the input topic.

    Exit status 1 if anything differs, or if there was nothing to compare.
    """
    from loadgen.cluster import Cluster
    from loadgen.oracle import verify_files, verify_topics

    with _errors():
        if (sink_topic is None) == (files is None):
            raise OptionError("say where the output is: either --sink-topic, or --files for a directory of files")
        if files is not None and state is not None:
            raise OptionError("--state goes with --sink-topic: queries that write files leave none to compare")
        with _session("towpath-verify", cores, memory) as spark:
            cluster = Cluster(bootstrap, kafka_config)
            results = [] if files is None else verify_files(spark, cluster, query, input_topic, files)
            if sink_topic is not None:
                results = verify_topics(
                    spark,
                    cluster,
                    query,
                    input_topic,
                    sink_topic,
                    state=state,
                    emit=emit.value,
                    guarantee=guarantee.value,
                )
        for result in results:
            _print_verify(result)
        if as_json:
            typer.echo(json.dumps({result.what: result.to_dict() for result in results}))
        if not all(result.ok for result in results):
            raise typer.Exit(1)


def main() -> None:
    """Entry point of the program."""
    app()


def _profile(rate: str, profile: str | None) -> str:
    if profile is not None:
        return profile
    if rate == "max":
        return "constant(10000)"  # event time only; nothing is paced
    if not rate.replace("_", "").isdigit() or int(rate) < 1:
        raise OptionError(f"--rate {rate!r} is neither a number of events per second nor max")
    return f"constant({int(rate)})"


def _settings(pairs: list[str]) -> dict[str, str]:
    broken = [pair for pair in pairs if "=" not in pair]
    if broken:
        raise OptionError(f"--set {broken[0]!r} is not NAME=VALUE")
    return dict(pair.split("=", 1) for pair in pairs)


def _seconds(text: str | None, option: str) -> float | None:
    from loadgen.options import parse_duration_ms

    return parse_duration_ms(text, option) / 1000 if text else None


@contextmanager
def _errors() -> Iterator[None]:
    """Prints an error that a user can act on as one line, exit status 2."""
    from confluent_kafka import KafkaException

    try:
        yield
    except (LoadgenError, NexmarkError, KafkaException) as error:
        text = f"Kafka: {error.args[0].str()}" if isinstance(error, KafkaException) else str(error)
        console.print(f"[bold red]error:[/bold red] {escape(text)}", highlight=False, soft_wrap=True)
        raise typer.Exit(2) from error


@contextmanager
def _session(app_name: str, cores: int, memory_mb: int) -> Iterator[SparkSession]:
    from loadgen.session import SessionSettings, start_session, stop_session

    with tempfile.TemporaryDirectory(prefix="towpath-spark-", ignore_cleanup_errors=True) as made:
        with console.status("starting Spark"):
            spark = start_session(
                replace(SessionSettings(), app=app_name, cores=cores, memory_mb=memory_mb, work_dir=Path(made))
            )
        try:
            yield spark
        finally:
            stop_session(spark)


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set; a second SIGINT interrupts at once."""
    stop = threading.Event()

    def ask(number: int, _: Any) -> None:
        stop.set()
        if number == signal.SIGINT:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _progress() -> Iterator[Any]:
    """Shows a load's progress: a live line on a terminal, a line every few seconds elsewhere."""
    seen = 0

    def show(progress: Progress) -> None:
        nonlocal seen
        seen += 1
        total = f" of {progress.total:,}" if progress.total else ""
        behind = "" if progress.behind_ms is None else f", behind {progress.behind_ms:,.0f} ms"
        text = f"{progress.events:,}{total} events, {progress.rate:,.0f}/s{behind}"
        if live is not None:
            live.update(text)
        elif seen % PLAIN_EVERY == 0:
            console.print(text, highlight=False)

    if sys.stderr.isatty():
        with console.status("warming up") as live:
            yield show
    else:
        live = None
        yield show


PLAIN_EVERY = 10
"""Progress reports per printed line where there is no terminal: one line in five seconds."""


def _print_load(result: LoadResult) -> None:
    table = Table(show_header=False, box=None)
    table.add_row("events", f"{result.events:,}" + (" (interrupted)" if result.interrupted else ""))
    table.add_row("rate", f"{result.events_per_s:,.0f} events/s over {result.seconds:,.1f} s")
    table.add_row("placed by", f"{result.partitioner}, {result.partitions} partitions of {result.topic}")
    if result.delay_p50_ms is not None:
        table.add_row(
            "own delay",
            f"p50 {result.delay_p50_ms:,.0f} ms, p99 {result.delay_p99_ms:,.0f} ms, max {result.delay_max_ms:,.0f} ms "
            f"without the first {result.warmup_s} s (with them, max {result.delay_max_with_warmup_ms:,.0f} ms)",
        )
    console.print(table)


def _print_window(windows: pd.DataFrame) -> None:
    """One line for the newest second that is complete."""
    seconds = sorted(windows["second"].unique())
    chosen = seconds[-2] if len(seconds) > 1 else seconds[-1]
    parts = []
    for row in windows[windows["second"] == chosen].to_dict("records"):
        if row["kind"] != "append_newest" and row["p50_ms"] == row["p50_ms"]:
            figures = f"p50 {row['p50_ms']:.0f} p99 {row['p99_ms']:.0f} max {row['max_ms']:.0f} ms"
            parts.append(f"{row['topic']} {row['kind']} {row['rows']:,}/s {figures}")
    console.print(f"{chosen}: {' · '.join(parts)}", highlight=False, soft_wrap=True)


def _totals_table(totals: pd.DataFrame) -> Table:
    table = Table("topic", "latency", "records", "events", "p50", "p95", "p99", "max ms", box=None)
    for row in totals.to_dict("records"):
        figures = [row[name] for name in ("p50_ms", "p95_ms", "p99_ms", "max_ms")]
        shown = ["–" if figure != figure else f"{figure:,.0f}" for figure in figures]
        table.add_row(str(row["topic"]), str(row["kind"]), f"{row['rows']:,}", f"{row['events']:,}", *shown)
    return table


def _print_verify(result: VerifyResult) -> None:
    verdict = "[green]equal[/green]" if result.ok else "[bold red]different[/bold red]"
    if not result.input_events:
        verdict = "[bold red]nothing to compare: the input topic is empty[/bold red]"
    console.print(
        f"{result.query} {result.what}: {verdict} — {result.input_events:,} input events, "
        f"{result.expected:,} expected, {result.actual:,} found, {result.mismatches:,} mismatches"
    )
    for fault, number in result.faults.items():
        console.print(f"  {fault}: {number:,}", highlight=False)
    for sample in result.samples[:5]:
        console.print(f"  {escape(json.dumps(sample))}", highlight=False, soft_wrap=True)
