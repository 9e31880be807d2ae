"""What leaves a replica: rows to the topics of its outputs, watermarks to its inner edges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from statemgr.clock import Clock
from towpath.operators.codec import RecordEncoder
from towpath.query.plan import PARTITION, StagePlan
from towpath.stage.deadletter import DeadLetters
from towpath.stage.latency import Latencies
from towpath.stage.metrics import StageMetrics
from towpath.stage.ownership import Topics
from towpath.stage.router import Router
from towpath.stage.tasks import OwnedTask
from towpath.stage.transaction import Transactor


class Sending:
    """The outputs of one replica.

    Args:
        plan: the stage.
        transactor: gives producers.
        dead_letters: take rows that no record can hold.
        encoders: of sinks whose schemas are in a registry, by topic.
        latencies: are told what is sent.
        metrics: of the replica.
        clock: time.

    Attributes:
        bytes: produced since the last commit.
    """

    def __init__(
        self,
        plan: StagePlan,
        transactor: Transactor,
        dead_letters: DeadLetters,
        encoders: Mapping[str, RecordEncoder],
        latencies: Latencies,
        metrics: StageMetrics,
        clock: Clock,
    ) -> None:
        self._plan = plan
        self._transactor = transactor
        self._dead_letters = dead_letters
        self._encoders = encoders
        self._latencies = latencies
        self._metrics = metrics
        self._clock = clock
        self._routers: Sequence[Router] = ()
        self._tasks: Mapping[int, OwnedTask] = {}
        self._silent: set[int] = set()
        self.bytes = 0

    @property
    def inner(self) -> bool:
        """Whether other stages read what is sent."""
        return any(router.inner for router in self._routers)

    def route(self, topics: Topics) -> None:
        """These are the topics as they exist."""
        self._routers = [
            Router(item, topics.infos[item.topic], self._encoders.get(item.topic)) for item in self._plan.outputs
        ]

    def own(self, tasks: Mapping[int, OwnedTask]) -> None:
        """These are the tasks now."""
        self._tasks = tasks
        self._silent = {partition for partition, task in tasks.items() if task.silent}

    def send(self, outputs: Sequence[tuple[str, pl.DataFrame]]) -> None:
        """Write rows, each topic's in their order."""
        for topic, rows in outputs:
            if rows.height:
                self._heard(rows)
                for router in self._routers:
                    if router.topic == topic:
                        self._write(router, rows)

    def mark(self, value: bytes) -> None:
        """Tell every task of the next stages of watermarks."""
        self._transactor.begin()
        for router in self._routers:
            if router.inner:
                self.bytes += router.mark(value, self._transactor.outputs(inner=True))

    def committed(self) -> None:
        """The transaction was committed."""
        self.bytes = 0
        self._latencies.committed(self._clock.wall_ms())

    def drop(self) -> None:
        """What was sent counts for nothing (R4)."""
        self.bytes = 0
        self._latencies.drop()
        self._silent = set()

    def _write(self, router: Router, rows: pl.DataFrame) -> None:
        sent = router.send(rows, self._transactor.outputs(inner=router.inner))
        self.bytes += sent.produced
        self._metrics.sent(router.topic, rows.height - len(sent.too_large) - len(sent.refused), sent.produced)
        self._latencies.sent(router.topic, rows)
        for row in sent.too_large:
            reason = f"a row for {router.topic} is larger than Kafka accepts"
            self._dead_letters.row(row.partition, row.value, reason)
        for refused in sent.refused:
            reason = f"a row can't be written to {router.topic}: {refused.reason}"
            self._dead_letters.row(refused.partition, refused.value, reason)

    def _heard(self, rows: pl.DataFrame) -> None:
        """Note tasks of which rows are sent for the first time since they came here."""
        if self._silent:
            heard = self._silent.intersection(rows.get_column(PARTITION).unique())
            for partition in heard:
                self._tasks[partition].silent = False
            self._silent = {partition for partition in self._silent if self._tasks[partition].silent}
