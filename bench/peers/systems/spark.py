"""Spark Structured Streaming by PySpark: everything in one JVM."""

from __future__ import annotations

from collections.abc import Sequence

from bench.peers.environment import ensure_environment, program_of, python_of, write_run
from bench.peers.model import Command, Guarantee, Job, Run, Say, UnavailableError, Variant
from loadgen.jars import CONNECTOR_JARS, SPARK_VERSION
from towpath.jars import JarsError, ensure_jars

NAME = "spark"
_TRIGGERS = 10
"""Of a drain; without a bound the first trigger would take all events at once."""

_SETTINGS = {
    "spark.master": "local[2]",
    "spark.driver.memory": "3g",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
}
"""Shuffle partitions for the cores that there are; the state store that may grow, with the quicker checkpoints."""


class Spark:
    """See :class:`bench.peers.model.System`."""

    name = NAME
    title = "Spark Structured Streaming 4.2.0 (PySpark)"
    share = 1.0

    def variants(self, job: Job) -> Sequence[Variant]:  # noqa: ARG002
        """Its Kafka sink knows at-least-once alone; a trigger follows the one before at once."""
        return [Variant(NAME, "default", Guarantee.AT_LEAST_ONCE, _SETTINGS)]

    def unsupported(self, job: Job) -> str | None:  # noqa: ARG002
        """It can do all of them."""
        return None

    def prepare(self, say: Say) -> None:
        """Its environment and the connector's jars."""
        ensure_environment(NAME, say)
        self._jars()

    def group(self, run: Run) -> str | None:  # noqa: ARG002
        """Positions are in its checkpoints."""
        return None

    def command(self, run: Run) -> Command:
        """One Python process with its JVM."""
        settings = {
            **run.variant.settings,
            "spark.jars": self._jars(),
            "spark.local.dir": str(run.work_dir / "local"),
            "spark.sql.warehouse.dir": str(run.work_dir / "warehouse"),
            "maxOffsetsPerTrigger": str(run.events if run.job.paced else max(run.events // _TRIGGERS, 1)),
        }
        path = write_run(run.with_settings(settings))
        return Command([str(python_of(NAME)), str(program_of(NAME)), str(path)])

    def _jars(self) -> str:
        try:
            directory = ensure_jars(CONNECTOR_JARS, f"spark-kafka-{SPARK_VERSION}", transitive=False)
        except JarsError as error:
            raise UnavailableError(str(error)) from error
        return ",".join(str(jar) for jar in sorted(directory.glob("*.jar")))
