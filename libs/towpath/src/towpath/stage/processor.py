"""What a replica does with input: records in, rows out, and the tasks' positions moved forward.

The replica decides when to read and when to commit; the processor knows what a record is. :class:`FrameProcessor` is
the one that runs queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import polars as pl

from statemgr.clock import Clock
from statemgr.kafka.ports import Message
from statemgr.layout import dead_letter_topic
from towpath.query.plan import StagePlan
from towpath.stage.chain import OperatorChain
from towpath.stage.deadletter import DeadLetters
from towpath.stage.intake import Batch, Intake
from towpath.stage.metrics import StageMetrics
from towpath.stage.ownership import Topics
from towpath.stage.router import Router
from towpath.stage.settings import StageSettings
from towpath.stage.tasks import OwnedTask
from towpath.stage.transaction import Transactor


class Processor(Protocol):
    """Processes the input of the tasks that a replica owns."""

    @property
    def output_bytes(self) -> int:
        """Bytes produced since the last commit."""
        ...

    def own(self, tasks: Mapping[int, OwnedTask], topics: Topics) -> None:
        """These are the tasks now, by partition; cheap, and called whenever the set changes."""
        ...

    def process(self, messages: Sequence[Message]) -> None:
        """Process records of owned tasks inside the replica's transaction, and advance the tasks' positions.

        Raises:
            ProducerLostError, RetryableKafkaError: the replica drops everything (R4).
            StateError, TowpathError: what needs an operator's decision.
        """
        ...

    def resume(self, now_s: float) -> bool:
        """Process rows that waited for their key's state and have it now; gives whether there were any."""
        ...

    def committed(self) -> None:
        """The transaction was committed."""
        ...

    def drop(self) -> None:
        """Forget everything in hand (R4): no task is owned any more, operators are made anew."""
        ...

    def report(self, *, last: bool = False) -> None:
        """Let the log say what is due; to be called every now and then, and with ``last`` at the end."""
        ...


MakeProcessor = Callable[[StagePlan, StageSettings, Transactor, StageMetrics, Clock], Processor]
"""Makes a replica's processor."""


class FrameProcessor:
    """Decodes records to Polars frames, runs the stage's operators on them, and routes what comes out."""

    def __init__(
        self, plan: StagePlan, settings: StageSettings, transactor: Transactor, metrics: StageMetrics, clock: Clock
    ) -> None:
        self._plan = plan
        self._transactor = transactor
        self._metrics = metrics
        self._clock = clock
        self._dead_letters = DeadLetters(plan, settings.replica, transactor, metrics, clock)
        self._intake = Intake(plan)
        self._chain: OperatorChain | None = None
        self._tasks: Mapping[int, OwnedTask] = {}
        self._topics: Topics | None = None
        self._routers: Sequence[Router] = ()
        self._output_bytes = 0

    @property
    def output_bytes(self) -> int:
        """See :class:`Processor`."""
        return self._output_bytes

    def own(self, tasks: Mapping[int, OwnedTask], topics: Topics) -> None:
        """See :class:`Processor`."""
        if topics is not self._topics:
            self._dead_letters.fit(topics.infos[dead_letter_topic(self._plan.app)])
            self._routers = [Router(item, topics.infos[item.topic]) for item in self._plan.outputs]
            self._topics = topics
        self._tasks = tasks
        states = {partition: task.state for partition, task in tasks.items() if task.state is not None}
        if self._chain is None:
            self._chain = OperatorChain(self._plan, states, self._dead_letters, self._metrics)
        else:
            self._chain.tasks = states

    def process(self, messages: Sequence[Message]) -> None:
        """See :class:`Processor`."""
        batch = self._intake.read(messages)
        self._transactor.begin()
        self._metrics.records.inc(batch.records)
        for message, reason in batch.poison:
            self._dead_letters.record(message, reason)
        if batch.frame is not None:
            self._run(batch.frame, batch.oldest_ms)
        self._advance(batch)

    def resume(self, now_s: float) -> bool:  # noqa: ARG002
        """See :class:`Processor`."""
        return False

    def committed(self) -> None:
        """See :class:`Processor`."""
        self._output_bytes = 0

    def drop(self) -> None:
        """See :class:`Processor`."""
        self._tasks, self._chain, self._output_bytes = {}, None, 0

    def report(self, *, last: bool = False) -> None:
        """See :class:`Processor`."""
        self._dead_letters.report(last=last)

    def _run(self, frame: pl.DataFrame, oldest_ms: int) -> None:
        if self._chain is not None:
            self._metrics.waited(self._chain.first, (self._clock.wall_ms() - oldest_ms) / 1000)
            for topic, rows in self._chain.run(frame):
                self._send(topic, rows)

    def _advance(self, batch: Batch) -> None:
        for source, offset in batch.next_offsets.items():
            self._tasks[source.partition].advance(source.topic, offset)
            self._metrics.position(source.topic, source.partition, offset)

    def _send(self, topic: str, frame: pl.DataFrame) -> None:
        for router in self._routers:
            if router.topic == topic and frame.height:
                sent = router.send(frame, self._transactor.outputs(inner=router.inner))
                self._output_bytes += sent.produced
                for row in sent.too_large:
                    self._dead_letters.row(row.partition, row.value, f"a row for {topic} is larger than Kafka accepts")
