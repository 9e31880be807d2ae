"""Runs a query on Spark: its sources from Kafka, its sinks to Kafka, or to a function that takes their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from towpath.query.graph import Graph, Source
from towpath.query.plan import QueryPlan
from towpath.spark.errors import SparkFailedError
from towpath.spark.judge import Mode, output_mode
from towpath.spark.lower import lower
from towpath.spark.session import first_line
from towpath.spark.sinks import records
from towpath.spark.sources import decoded

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RowTaker = Callable[[str, str], None]
"""Takes a sink's topic and a row as JSON text."""

CHECK_S = 0.5
"""Between two looks at whether a streaming query has failed or is to stop."""


@dataclass(frozen=True)
class Job:
    """A query that is to run.

    Attributes:
        plan: its stages, which know the columns that are read.
        graph: its graph.
        bootstrap: Kafka's servers.
        options: further options of Spark's Kafka source and sink, such as ``kafka.security.protocol``.
        take: gets the rows of sinks instead of Kafka; None: they are written.
    """

    plan: QueryPlan
    graph: Graph
    bootstrap: str
    options: Mapping[str, str] = field(default_factory=dict)
    take: RowTaker | None = None

    @property
    def kafka(self) -> dict[str, str]:
        """Options of source and sink."""
        return {"kafka.bootstrap.servers": self.bootstrap, **self.options}

    @property
    def reading(self) -> dict[str, str]:
        """Options of the source: all that is committed, from the beginning."""
        return {"kafka.isolation.level": "read_committed", "startingOffsets": "earliest", **self.kafka}


def run_batch(spark: SparkSession, job: Job) -> None:
    """Run over all that the sources have.

    Raises:
        SparkFailedError: Spark ended with an error.
    """

    def read(topic: str) -> DataFrame:
        return spark.read.format("kafka").options(**job.reading).option("subscribe", topic).load()

    frames = lower(job.graph, sources_of(job, read, Mode.BATCH), Mode.BATCH)
    with _one_line(job.plan.app):
        for sink, frame in frames.items():
            rows = records(frame, sink)
            if job.take is None:
                rows.write.format("kafka").options(**job.kafka).option("topic", sink.topic).save()
            else:
                _take(rows, sink.topic, job.take)


def run_streaming(
    spark: SparkSession, job: Job, checkpoint: Path, *, until_end: bool, stopping: Callable[[float], bool]
) -> None:
    """Run until there is nothing more, or for ever.

    Args:
        spark: session.
        job: the query.
        checkpoint: directory of Spark's progress and state, one below for each sink.
        until_end: stop when all that the sources had at the start has been read.
        stopping: waits so many seconds; gives True if the query is to stop.

    Raises:
        SparkFailedError: Spark ended with an error.
    """

    def read(topic: str) -> DataFrame:
        return spark.readStream.format("kafka").options(**job.reading).option("subscribe", topic).load()

    frames = lower(job.graph, sources_of(job, read, Mode.STREAMING), Mode.STREAMING)
    with _one_line(job.plan.app):
        queries = []
        for sink, frame in frames.items():
            writer = records(frame, sink).writeStream.queryName(sink.topic).outputMode(output_mode(job.graph, sink))
            writer = writer.option("checkpointLocation", str(checkpoint / sink.topic))
            writer = writer.trigger(availableNow=True) if until_end else writer
            if job.take is None:
                writer = writer.format("kafka").options(**job.kafka).option("topic", sink.topic)
            else:
                writer = writer.foreachBatch(_Printing(sink.topic, job.take))
            queries.append(writer.start())
        while any(query.isActive for query in queries):
            if stopping(CHECK_S):
                break
            _raise_failed(queries)
        _raise_failed(queries)
        for query in queries:
            query.stop()


def sources_of(job: Job, read: Callable[[str], DataFrame], mode: Mode) -> dict[Source, DataFrame]:
    """The rows of each source; ``read`` gives the records of a topic."""
    sources = [node for node in job.graph.nodes if isinstance(node, Source)]
    inputs = {source: job.plan.stage(source.options.name).inputs[0] for source in sources}
    return {
        source: decoded(read(source.topic), item, streams=mode is Mode.STREAMING) for source, item in inputs.items()
    }


@dataclass(frozen=True)
class _Printing:
    """Takes the rows of each micro-batch."""

    topic: str
    take: RowTaker

    def __call__(self, frame: DataFrame, number: int) -> None:  # noqa: ARG002
        _take(frame, self.topic, self.take)


def _take(frame: DataFrame, topic: str, take: RowTaker) -> None:
    for row in frame.select("value").toLocalIterator():
        take(topic, row[0])


def _raise_failed(queries: list[Any]) -> None:
    for query in queries:
        error = query.exception()
        if error is not None:
            raise error


@contextmanager
def _one_line(app: str) -> Iterator[None]:
    """Turns what Spark raises into an error of one line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SparkFailedError(f"{app} ended on Spark: {first_line(error)}") from error
