"""Flink SQL by PyFlink: job manager and task manager in one JVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.peers.environment import ensure_environment, program_of, python_of, write_run
from bench.peers.model import Command, Guarantee, Job, Run, Say, UnavailableError, Variant
from towpath.jars import JarsError, ensure_jars

NAME = "flink"
VERSION = "2.2.1"
_CONNECTOR = "org.apache.flink:flink-sql-connector-kafka:5.0.0-2.2"
_DEFAULT = {
    "parallelism.default": "2",
    "execution.checkpointing.interval": "1 s",
    "state.backend.type": "rocksdb",
    "execution.checkpointing.incremental": "true",
    "pipeline.object-reuse": "true",
    "taskmanager.memory.process.size": "3 g",
}
"""A slot for each core; state that may grow beyond memory, as everybody's here. Results become visible at checkpoints,
which are as frequent as the others' longest commits. Without object reuse rows are copied."""

_LARGE = {"execution.checkpointing.interval": "10 s"}
"""Of checkpoints of large state, each of which costs the more the more has changed."""

_MINI_BATCH = {
    **_DEFAULT,
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "2 s",
    "table.exec.mini-batch.size": "50000",
    "table.optimizer.agg-phase-strategy": "TWO_PHASE",
}
"""What its tuning guide says for aggregations; figures as in the published NEXMark runs."""

_HEAP_STATE = {**_MINI_BATCH, "state.backend.type": "hashmap"}
"""State on the heap, for jobs whose keys fit in it."""

_LOW_LATENCY = {**_DEFAULT, "execution.checkpointing.interval": "100 ms", "state.backend.type": "hashmap"}
"""Results become visible at checkpoints, so these are as frequent as the commits of others."""


class Flink:
    """See :class:`bench.peers.model.System`."""

    name = NAME
    title = f"Flink SQL {VERSION} (PyFlink)"
    share = 1.0

    def variants(self, job: Job) -> Sequence[Variant]:
        """Mini-batch off and on, and with state on the heap where that is large enough; at least once, the best."""
        if job.paced:
            return [Variant(NAME, "low-latency", guarantee, _LOW_LATENCY) for guarantee in Guarantee]
        sets: dict[str, Mapping[str, str]] = {"default": _DEFAULT}
        if job.counts:
            sets["mini-batch"] = _MINI_BATCH
        if job.counts and not job.large:
            sets["best"] = _HEAP_STATE
        if job.large:
            sets = {name: {**settings, **_LARGE} for name, settings in sets.items()}
        fastest = list(sets)[-1]
        exactly = [Variant(NAME, name, Guarantee.EXACTLY_ONCE, settings) for name, settings in sets.items()]
        return [*exactly, Variant(NAME, fastest, Guarantee.AT_LEAST_ONCE, sets[fastest])]

    def unsupported(self, job: Job) -> str | None:  # noqa: ARG002
        """It can do all of them."""
        return None

    def prepare(self, say: Say) -> None:
        """Its environment and the connector's jar."""
        ensure_environment(NAME, say)
        self._jar(say)

    def group(self, run: Run) -> str | None:
        """Where it shows its positions, at checkpoints."""
        return run.app

    def command(self, run: Run) -> Command:
        """One Python process with its JVM; the jar is on the JVM's class path."""
        state = run.work_dir / "checkpoints"
        settings = {
            **run.variant.settings,
            "execution.checkpointing.dir": state.as_uri(),
            "pipeline.jars": self._jar(lambda _: None),
        }
        path = write_run(run.with_settings(settings))
        return Command([str(python_of(NAME)), str(program_of(NAME)), str(path)])

    def _jar(self, say: Say) -> str:
        try:
            directory = ensure_jars((_CONNECTOR,), "flink-sql-kafka-5.0.0-2.2", transitive=False, notify=say)
        except JarsError as error:
            raise UnavailableError(str(error)) from error
        jars = sorted(directory.glob("flink-sql-connector-kafka*.jar"))
        return ";".join(jar.as_uri() for jar in jars)
