"""All replicas of a query as processes, over one broker."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import polars as pl

from statemgr.layout import consumer_group
from tests.harness.load import create_topic
from tests.harness.processes import ReplicaProcess
from tests.harness.topics import GroupLag, read_topic
from tests.harness.waiting import wait_for
from towpath.query.loading import load_query
from towpath.query.plan import QueryPlan
from towpath.stage.dump import dump_state

DRAIN_LIMIT_S = 60.0
"""For working off what the load has left: thousands of events a second remain after a kill, plus restarts."""


class Deployment:
    """The replicas of a query; a context manager that leaves no process behind.

    An error that leaves the context gets the last log lines of every replica as a note.

    Attributes:
        plan: the stages.
        replicas: name (stage and index) → process.
        bootstrap: of the broker.
        source: the source topic, made here.
    """

    def __init__(
        self,
        query: str,
        bootstrap: str,
        work_dir: Path,
        *,
        replicas: Mapping[str, int] | None = None,
        settings: Mapping[str, Any] | None = None,
        options: Sequence[str] = (),
        source_partitions: int = 8,
    ) -> None:
        """``replicas``: stage → number, 1 by default; ``settings``: arguments of the query's ``build()``."""
        self.query = query
        self.plan: QueryPlan = load_query(query, settings)
        self.bootstrap = bootstrap
        self.source = self.plan.stages[0].inputs[0].topic
        self.settings = [part for name, value in (settings or {}).items() for part in ("--set", f"{name}={value}")]
        self._work_dir = work_dir
        self._source_partitions = source_partitions
        counts = {stage: (replicas or {}).get(stage, 1) for stage in self.plan.names}
        processes = [
            ReplicaProcess(
                query, stage, work_dir, bootstrap, index=index, count=count, options=[*self.settings, *options]
            )
            for stage, count in counts.items()
            for index in range(count)
        ]
        self.replicas = {process.name: process for process in processes}

    def __getitem__(self, name: str) -> ReplicaProcess:
        return self.replicas[name]

    def of_stage(self, stage: str) -> list[str]:
        """Names of a stage's replicas."""
        return [name for name in self.replicas if name.rpartition("-")[0] == stage]

    def start(self) -> None:
        """Make the source topic and start all replicas."""
        create_topic(self.bootstrap, self.source, self._source_partitions)
        for replica in self.replicas.values():
            replica.start()

    def await_running(self) -> None:
        """Wait until every replica processes."""
        for replica in self.replicas.values():
            replica.await_running()

    def drain(self, limit_s: float = DRAIN_LIMIT_S) -> None:
        """Wait until the committed offsets of every stage have reached the ends; no load may be running."""
        await_worked_off(self.plan, self.bootstrap, self.describe, limit_s)

    def stop(self) -> dict[str, float]:
        """SIGTERM to all; requires exit status 0 of each within the limit.

        Returns:
            Replica → seconds it took.
        """
        begin = time.monotonic()
        for replica in self.replicas.values():
            replica.terminate()
        took = {}
        for name, replica in self.replicas.items():
            replica.require_clean_exit()
            took[name] = time.monotonic() - begin
        return took

    def outputs(self, topic: str | None = None) -> list[dict[str, Any]]:
        """Committed records of the sink topic (the last stage's by default): fields, partition as ``__partition``."""
        return read_outputs(self.bootstrap, topic or self.plan.stages[-1].outputs[0].topic)

    def state(self, stage: str, table: str) -> dict[str, Any]:
        """Key → value of a table, out of the stores of a stopped stage."""
        rows = pl.read_parquet(self.state_file(stage)).filter(pl.col("table") == table)
        pairs = list(zip(rows["key"].to_list(), rows["value"].to_list(), strict=True))
        entries = {key.decode(): msgspec.json.decode(value) for key, value in pairs}
        assert len(entries) == len(pairs), f"{len(pairs) - len(entries)} keys of {table} are in more than one task"
        return entries

    def state_file(self, stage: str) -> Path:
        """The tables of a stopped stage as Parquet, as ``towpath state dump`` writes them."""
        output = self._work_dir / f"{stage}.parquet"
        dump_state(self.plan.stage(stage), self._work_dir / "state", output)
        return output

    def describe(self) -> str:
        """What a message should say of the processes."""
        return "\n".join(replica.describe() for replica in self.replicas.values())

    def close(self) -> None:
        """Leave no process behind."""
        for replica in self.replicas.values():
            replica.close()


@contextlib.contextmanager
def deployed(deployment: Deployment) -> Iterator[Deployment]:
    """Start a deployment, and end it whatever happens."""
    try:
        deployment.start()
        yield deployment
    except BaseException as error:
        error.add_note(deployment.describe())
        raise
    finally:
        deployment.close()


def await_worked_off(
    plan: QueryPlan, bootstrap: str, describe: Callable[[], str], limit_s: float = DRAIN_LIMIT_S
) -> None:
    """Wait until the committed offsets of every stage have reached the ends of its inputs."""
    deadline = time.monotonic() + limit_s
    for stage in plan.stages:
        topics = [item.topic for item in stage.inputs]
        with contextlib.closing(GroupLag(bootstrap, consumer_group(stage.app, stage.name), topics)) as lag:
            wait_for(
                f"stage {stage.name} has worked off its input",
                lambda lag=lag: not lag.of_partitions(),  # type: ignore[misc]
                max(1.0, deadline - time.monotonic()),
                lambda lag=lag: f"Lag: {lag.of_partitions()}\n{describe()}",  # type: ignore[misc]
            )


def read_outputs(bootstrap: str, topic: str) -> list[dict[str, Any]]:
    """Committed JSON records of a topic: fields, partition as ``__partition``."""
    return [
        {**msgspec.json.decode(record.value() or b"{}"), "__partition": record.partition()}
        for record in read_topic(bootstrap, topic)
    ]
