"""The main job from broker to report."""

from __future__ import annotations

import shutil
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from demo.check import compare
from demo.console import Console
from demo.lag import wait_drained
from demo.latency import LatencyThread
from demo.settings import INPUT, MODULE, SINK, STAGE, WARMUP_TOPIC, DemoResult, DemoSettings
from loadgen.latency import LatencyResult, LatencySettings, report
from loadgen.load import LoadResult, LoadSettings, run_load
from loadgen.options import SourceOptions
from loadgen.session import SessionSettings, start_session, stop_session
from statemgr.kafka.confluent import ConfluentKafka
from towpath.broker import LocalBroker
from towpath.errors import TowpathError
from towpath.launch import Pipeline, programs_of
from towpath.launch.topics import prepare_query_topics
from towpath.query.loading import load_query
from towpath.query.plan import QueryPlan
from towpath.stage.dump import dump_state

SPARK_CORES = 3
"""Tasks at a time: the paced load holds one for the whole run, the latency job takes the others every few seconds."""


class PipelineDiedError(TowpathError):
    """A replica ended in the middle of the run."""


@dataclass(frozen=True)
class Measured:
    """What a run left to be judged."""

    load: LoadResult
    latency: LatencyResult
    state: Path


def run_demo(settings: DemoSettings, console: Console) -> DemoResult:
    """Run everything, and compare with the batch computation.

    Raises:
        TowpathError, StateError, LoadgenError: something needed can't be had, or ended early; one line.
    """
    _empty(settings.work)
    plan = load_query(MODULE, {"partitions": settings.partitions})
    with ExitStack() as stack:
        broker = LocalBroker(settings.work / "broker", notify=console.say, short_lived=True)
        stack.callback(broker.stop)
        console.say(f"broker: {broker.start().bootstrap}")
        prepare_query_topics(
            plan, ConfluentKafka(broker.bootstrap), threading.Event(), source_partitions=settings.partitions
        )
        spark = start_session(SessionSettings(app="towpath-demo", cores=SPARK_CORES))
        stack.callback(stop_session, spark)
        console.say("Spark session")
        measured = _measure(settings, console, broker.bootstrap, plan, spark)
        console.say("comparing outputs and final state with a batch computation over the input")
        comparison = compare(spark, broker.bootstrap, measured.state)
    return _judge(settings, measured, comparison)


def _measure(
    settings: DemoSettings, console: Console, bootstrap: str, plan: QueryPlan, spark: SparkSession
) -> Measured:
    options = ["--bootstrap", bootstrap, "--state-dir", str(settings.work / "state")]
    options += ["--set", f"partitions={settings.partitions}"]
    programs = programs_of(plan, MODULE, {STAGE: settings.replicas}, options)
    latency_settings = LatencySettings(bootstrap, (SINK,), settings.work / "latency", input_topic=INPUT)
    with Pipeline(programs, settings.work / "run") as pipeline:
        console.say(f"{plan.app}: " + ", ".join(program.name for program in programs))
        _load(spark, bootstrap, settings, WARMUP_TOPIC, settings.warmup_s, None)
        console.say("warmed up; the latency job follows the sink")
        with LatencyThread(spark, latency_settings, console.window) as latency:
            load = _load(spark, bootstrap, settings, INPUT, settings.seconds, console)
            console.say(f"load: {load.events:,} events, {load.events_per_s:,.0f}/s; waiting for the stages")
            wait_drained(ConfluentKafka(bootstrap), plan, settings.partitions, lambda: _require_alive(pipeline))
            measured = latency.finish()
    console.say("stages stopped")
    state = settings.work / "state.parquet"
    dump_state(plan.stage(STAGE), settings.work / "state", state)
    return Measured(load, measured, state)


def _load(
    spark: SparkSession, bootstrap: str, settings: DemoSettings, topic: str, seconds: int, console: Console | None
) -> LoadResult:
    # One micro-batch for the whole load: between two of them Spark plans for most of a second, and events are late.
    source = SourceOptions(
        seed=settings.seed,
        profile=f"constant({settings.rate})",
        events=settings.rate * seconds,
        span_ms=seconds * 1000,
    )
    load = LoadSettings(
        bootstrap,
        topic,
        source,
        create_partitions=settings.partitions,
        measure=False,
        check_clocks=False,
        warm_up=False,
    )
    if console is None:
        return run_load(spark, load)
    with console.load(settings.events) as bar:
        return run_load(spark, load, lambda now: console.loaded(bar, now))


def _require_alive(pipeline: Pipeline) -> None:
    for state in pipeline.states():
        if state.given_up:
            raise PipelineDiedError(
                f"{state.name} ended with status {state.exit_status}: {pipeline.log_file(state.name)}"
            )


def _judge(settings: DemoSettings, measured: Measured, comparison: tuple[int, int]) -> DemoResult:
    mismatches, outputs = comparison
    frames = measured.latency.frames
    totals = frames.totals.set_index(["topic", "kind"])
    visible, append, own = (totals.loc[key] for key in ((SINK, "visible"), (SINK, "append"), (INPUT, "load")))
    problems = []
    if measured.load.events != settings.events:
        problems.append(f"{measured.load.events} of {settings.events} events are in the source topic")
    if frames.records[SINK] != outputs:
        problems.append(f"the latency job read {frames.records[SINK]} of {outputs} outputs")
    facts = {
        "events": f"{measured.load.events:,} at {settings.rate:,}/s",
        "outputs": f"{outputs:,}",
        "mismatches": mismatches,
        "counter replicas": settings.replicas,
        "partitions": settings.partitions,
        "warm-up": f"{settings.warmup_s} s of load into another topic before time zero",
        "visible p50 / p99 / max": f"{visible['p50_ms']:.0f} / {visible['p99_ms']:.0f} / {visible['max_ms']:.0f} ms",
        "append p50 / p99 / max": f"{append['p50_ms']:.0f} / {append['p99_ms']:.0f} / {append['max_ms']:.0f} ms",
        "load's own delay p50 / p99": f"{own['p50_ms']:.0f} / {own['p99_ms']:.0f} ms",
    }
    html = report(frames, settings.work / "report.html", title="key_count: latency and throughput", facts=facts)["html"]
    return DemoResult(
        measured.load.events,
        outputs,
        mismatches,
        float(visible["p50_ms"]),
        float(visible["p99_ms"]),
        float(visible["max_ms"]),
        str(html),
        tuple(problems),
    )


def _empty(work: Path) -> None:
    """Stop a broker that an earlier run left behind, and remove what it wrote."""
    LocalBroker(work / "broker").stop()
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
