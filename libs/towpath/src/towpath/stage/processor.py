"""What a replica does with input: records in, rows out, and the tasks' positions moved forward.

The replica decides when to read and when to commit; the processor knows what a record is. :class:`FrameProcessor` is
the one that runs queries.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Protocol

import polars as pl

from statemgr.clock import Clock
from statemgr.kafka.ports import Message
from statemgr.layout import dead_letter_topic
from statemgr.types import TopicPartition
from statemgr.watermarks import NEVER
from towpath.errors import RegistryUnavailableError, StageStoppedError
from towpath.operators.marks import encode_marks
from towpath.query.plan import StagePlan
from towpath.stage.chain import OperatorChain, gate_of
from towpath.stage.codecs import Codecs, plain_codecs
from towpath.stage.deadletter import DeadLetters
from towpath.stage.deliveries import Deliveries
from towpath.stage.event_time import AtEnd, StageTime
from towpath.stage.gate import Gate
from towpath.stage.gathering import GatheredRows
from towpath.stage.intake import Batch, Intake
from towpath.stage.latency import Latencies
from towpath.stage.metrics import StageMetrics
from towpath.stage.overflow import Overflow
from towpath.stage.ownership import Topics
from towpath.stage.sending import Sending
from towpath.stage.settings import StageSettings
from towpath.stage.tasks import OwnedTask
from towpath.stage.transaction import Transactor


def nobody_tells(source: TopicPartition) -> bool:  # noqa: ARG001 - see AtEnd
    """No input is known to be at its end."""
    return False


class Processor(Protocol):
    """Processes the input of the tasks that a replica owns."""

    @property
    def output_bytes(self) -> int:
        """Bytes produced since the last commit."""
        ...

    @property
    def opaque(self) -> bool:
        """Whether nobody can say which state a row needs: a task must then have all of it before its first row."""
        ...

    def own(self, tasks: Mapping[int, OwnedTask], topics: Topics) -> None:
        """These are the tasks now, by partition; cheap, and called whenever the set changes."""
        ...

    def process(self, messages: Sequence[Message], *, gather: bool = False) -> None:
        """Process records of owned tasks inside the replica's transaction, and advance the tasks' positions.

        Args:
            messages: records.
            gather: rows may wait for :meth:`flush`, so that they can be merged with those of later batches.

        Raises:
            ProducerLostError, RetryableKafkaError: the replica drops everything (R4).
            StateError, TowpathError: what needs an operator's decision.
        """
        ...

    def resume(self, now_s: float, at_end: AtEnd = nobody_tells) -> bool:
        """Process rows whose state has come, let timers go off, do what is to be done outside; gives whether any was.

        To be called every turn; it opens the replica's transaction if there is something to do.

        Args:
            now_s: monotonic time.
            at_end: asked of an input that was silent for long.
        """
        ...

    def flush(self) -> None:
        """Process the rows that wait to be merged with others; to be called before a commit."""
        ...

    def timers(self, partition: int) -> dict[int, int] | None:
        """What a task's next owner is told: the earliest timer of each bin, in ms of event time, or less (R14).

        Bins without one are left out. None: nobody knows, or nothing has timers.
        """
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


CLOSED_ENTRIES = 20_000
"""Entries of closed windows in a turn: tens of milliseconds, so that a million of them do not hold up the rest."""

CLOSING_S = 0.05
"""Time in a turn after which no other task's timers are looked at: entries that are only read count for nothing."""

MakeProcessor = Callable[[StagePlan, StageSettings, Transactor, StageMetrics, Clock], Processor]
"""Makes a replica's processor."""


class FrameProcessor:
    """Decodes records to Polars frames, runs the stage's operators on them, and routes what comes out."""

    def __init__(
        self,
        plan: StagePlan,
        settings: StageSettings,
        transactor: Transactor,
        metrics: StageMetrics,
        clock: Clock,
        codecs: Codecs | None = None,
    ) -> None:
        """``codecs``: of inputs and sinks; None: those of a stage that needs no registry."""
        self._plan = plan
        self._transactor = transactor
        self._metrics = metrics
        self._clock = clock
        self._dead_letters = DeadLetters(plan, settings.replica, transactor, metrics, clock)
        self._codecs = codecs or plain_codecs(plan)
        self._intake = Intake(plan, self._codecs.decoders)
        self._again_s: float | None = None
        self._chain: OperatorChain | None = None
        self._gate: Gate | None = None
        self._overflow = Overflow()
        self._gathered = GatheredRows()
        self._deliveries = Deliveries(clock)
        self._latencies = Latencies(metrics, {output.topic for output in plan.outputs if not output.inner})
        self._sending = Sending(
            plan, transactor, self._dead_letters, self._codecs.encoders, self._latencies, metrics, clock
        )
        self._time: StageTime | None = None
        self._tasks: Mapping[int, OwnedTask] = {}
        self._topics: Topics | None = None

    @property
    def output_bytes(self) -> int:
        """See :class:`Processor`."""
        return self._sending.bytes

    @cached_property
    def opaque(self) -> bool:
        """See :class:`Processor`."""
        return self._plan.stateful and gate_of([item.make() for item in self._plan.operators]) is None

    def own(self, tasks: Mapping[int, OwnedTask], topics: Topics) -> None:
        """See :class:`Processor`.

        Raises:
            StageStoppedError: rows of a task wait for state, and the operators can't say which.
        """
        if topics is not self._topics:
            self._dead_letters.fit(topics.infos[dead_letter_topic(self._plan.app)])
            self._sending.route(topics)
            self._topics = topics
            self._time = StageTime(self._plan, topics.tasks) if self._plan.event_time else None
        self._tasks = tasks
        self._sending.own(tasks)
        if self._time is not None:
            self._time.own(tasks, self._clock.monotonic_s())
        states = {partition: task.state for partition, task in tasks.items() if task.state is not None}
        if self._chain is None:
            self._chain = OperatorChain(self._plan, states, self._dead_letters, self._metrics)
            keyed = self._chain.gate
            self._gate = Gate(self._chain, keyed, self._dead_letters) if keyed is not None else None
        else:
            self._chain.tasks = states
        self._overflow.own(tasks)
        if self._gate is not None:
            self._gate.own(tasks)
        else:
            _check_complete(tasks)

    def process(self, messages: Sequence[Message], *, gather: bool = False) -> None:
        """See :class:`Processor`."""
        if self._overflow:
            messages = self._overflow.add(messages)
            if not messages:
                return
        try:
            batch = self._intake.read(messages)
        except RegistryUnavailableError as error:
            self._overflow.keep_all(messages)
            self._again_s = error.again_s
            return
        if self._time is not None and self._chain is not None:
            batch = self._time.take(batch, self._clock.monotonic_s(), stamp=self._chain.timed)
        self._transactor.begin()
        self._metrics.took(batch.records, batch.frame.height if batch.frame is not None else 0)
        self._latencies.taken(batch.parts)
        watched = self._gate.watched if self._gate is not None else ()
        if not gather or watched:
            self.flush()
        stops: Mapping[TopicPartition, int] = {}
        if self._gate is not None and watched and batch.touches(watched):
            stops = self._process_at_gate(self._gate, batch, messages)
        else:
            self._process_straight(batch, gather=gather and not watched)
        if self._time is not None:
            self._time.advance(stops)

    def resume(self, now_s: float, at_end: AtEnd = nobody_tells) -> bool:
        """See :class:`Processor`."""
        resumed = self._decode_kept(now_s)
        resumed = self._resume_parked() or resumed
        delivered = self._chain is not None and self._chain.delivers and self._deliver(self._chain, now_s)
        closed = False
        if self._time is not None and self._chain is not None:
            self._time.rest(now_s, at_end)
            closed = self._close_windows(self._time, self._chain)
            self._say(self._time, self._chain, now_s)
        return resumed or delivered or closed

    def _deliver(self, chain: OperatorChain, now_s: float) -> bool:
        """Let operators do what they have to do outside of Kafka; gives whether there was anything."""
        free = [number for number, task in self._tasks.items() if _is_whole(task)]
        delivered = False
        for partition, outputs in self._deliveries.of(chain, free, now_s):
            self._transactor.begin()
            self._tasks[partition].touched = delivered = True
            self._sending.send(outputs)
        return delivered

    def _close_windows(self, time: StageTime, chain: OperatorChain) -> bool:
        """Let timers go off, as many as fit in a turn; gives whether there were any."""
        if not chain.timed:
            return False
        left, until_s = CLOSED_ENTRIES, self._clock.monotonic_s() + CLOSING_S
        for partition, task in self._tasks.items():
            if left <= 0 or (left < CLOSED_ENTRIES and self._clock.monotonic_s() >= until_s):
                break
            if task.state is None or task.undecoded or (self._gate is not None and self._gate.ready(partition)):
                continue  # rows whose state has come belong to what would be closed
            if task.migration is not None:
                task.migration.fetch(task.absent.newly_due(time.watermark(partition), task.state.open_bins))
            due = chain.due(partition)
            if due is not None and due <= time.watermark(partition):
                self._transactor.begin()
                task.touched = True
                dirty = task.state.dirty_entries
                self._sending.send(chain.close(partition, time.watermark(partition), left))
                left -= max(1, task.state.dirty_entries - dirty)
        return left < CLOSED_ENTRIES

    def _say(self, time: StageTime, chain: OperatorChain, now_s: float) -> None:
        """Send watermarks on, behind everything that they are about."""
        if not self._sending.inner or self._gathered:
            return
        marks = time.say(lambda partition: self._held(self._tasks[partition], chain), now_s)
        if marks is None:
            return
        self._sending.mark(encode_marks(marks))
        for partition in marks.marks:
            self._tasks[partition].touched = True

    def _held(self, task: OwnedTask, chain: OperatorChain) -> int | None:
        """The moment that a task's watermark must not reach yet, for windows that are open, here or elsewhere (R14)."""
        if task.undecoded:
            return NEVER
        if task.state is None:
            return None
        partition = task.id.partition
        held = [
            chain.held(partition),
            self._gate.held(partition) if self._gate is not None else None,
            task.absent.earliest(task.state.open_bins) if task.migrating and chain.timed else None,
        ]
        return min((each for each in held if each is not None), default=None)

    def timers(self, partition: int) -> dict[int, int] | None:
        """See :class:`Processor`."""
        task = self._tasks[partition]
        if self._time is None or self._chain is None or task.state is None:
            return None
        if not self._chain.timed:
            return {}
        absent = task.absent.by_bin(task.state.open_bins) if task.migrating else {}
        if absent is None:
            return None
        here = self._chain.timers(partition)
        if here is None:
            return None
        return {bin_: min(absent.get(bin_, time_ms), time_ms) for bin_, time_ms in {**absent, **here}.items()}

    def _decode_kept(self, now_s: float) -> bool:
        """Process records that wait for a schema, once the registry may be asked again; gives whether there were any.

        If there is no answer still, they are kept once more.
        """
        if self._again_s is None or now_s < self._again_s:
            return False
        self._again_s = None
        for task in self._tasks.values():
            task.undecoded = False
        kept = self._overflow.take()
        if kept:
            self.process(kept)
        return bool(kept)

    def _resume_parked(self) -> bool:
        if self._gate is None or not self._gate.watched:
            return False
        frames = self._gate.leave()
        for frame in frames:
            self._transactor.begin()
            self._run(frame, behind_gate=True)
        again = self._overflow.take()
        if again:
            self.process(again)
        self._gate.settle()
        return bool(frames or again)

    def flush(self) -> None:
        """See :class:`Processor`."""
        rows = self._gathered.take()
        if rows is not None and self._chain is not None:
            self._sending.send(self._chain.after_merge(rows))

    def committed(self) -> None:
        """See :class:`Processor`."""
        self._sending.committed()

    def drop(self) -> None:
        """See :class:`Processor`."""
        self._tasks, self._chain, self._gate = {}, None, None
        self._sending.drop()
        self._overflow = Overflow()
        self._again_s = None
        self._gathered = GatheredRows()

    def report(self, *, last: bool = False) -> None:
        """See :class:`Processor`."""
        self._dead_letters.report(last=last)

    def _process_straight(self, batch: Batch, *, gather: bool) -> None:
        for message, reason in batch.poison:
            self._dead_letters.record(message, reason)
        if batch.frame is not None:
            self._waited(batch)
            if gather and self._chain is not None and self._chain.merges:
                self._gather(self._chain, batch.frame)
            else:
                self._run(batch.frame)
        self._advance(batch)

    def _gather(self, chain: OperatorChain, frame: pl.DataFrame) -> None:
        self._gathered.add(chain.merged(frame))
        if self._gathered.full:
            self.flush()

    def _process_at_gate(self, gate: Gate, batch: Batch, messages: Sequence[Message]) -> Mapping[TopicPartition, int]:
        frame, stops = gate.enter(batch)
        if frame is not None and frame.height:
            self._waited(batch)
            self._run(frame, behind_gate=True)
        self._advance(batch, stops)
        self._overflow.keep(messages, stops)
        return stops

    def _waited(self, batch: Batch) -> None:
        if self._chain is not None:
            self._metrics.waited(self._chain.first, (self._clock.wall_ms() - batch.oldest_ms) / 1000)

    def _run(self, frame: pl.DataFrame, *, behind_gate: bool = False) -> None:
        if self._chain is not None:
            self._sending.send(self._chain.after_gate(frame) if behind_gate else self._chain.run(frame))

    def _advance(self, batch: Batch, stops: Mapping[TopicPartition, int] = MappingProxyType({})) -> None:
        for source, end in batch.next_offsets.items():
            offset = stops.get(source, end)
            self._tasks[source.partition].advance(source.topic, offset)
            self._metrics.tasks.position(source.topic, source.partition, offset)


def _is_whole(task: OwnedTask) -> bool:
    """Whether a task has state, all of it, and no rows that wait for some."""
    return task.state is not None and not task.migrating and (task.parking is None or not task.parking.rows)


def _check_complete(tasks: Mapping[int, OwnedTask]) -> None:
    """Refuse tasks whose rows would have to wait at a gate that is not there."""
    for task in tasks.values():
        if task.migrating or (task.parking is not None and not task.parking.idle(task.positions)):
            raise StageStoppedError(
                f"rows of {task.id} wait for their state, and the operators of stage {task.id.stage} can't say which "
                "state a row needs: the query was changed while state was on its way. Run its former version until "
                "the move is done"
            )
