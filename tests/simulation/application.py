"""The application that is simulated: counts rows by key in lists, deletes, judges lateness, sends watermarks on.

It implements :class:`towpath.stage.processor.Processor` in a few lines of plain Python, on the real tables, the real
parking and the real watermarks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import polars as pl

from statemgr.clock import Clock
from statemgr.kafka.ports import Message, Producer
from statemgr.layout import changelog_key, chunk_keys, store_key
from statemgr.lists import ListHead, appended
from statemgr.state import TableSpec, head_codec, json_codec
from statemgr.types import Position, TopicPartition
from statemgr.watermarks import IDLE as IDLE_MARK
from statemgr.watermarks import Watermarks
from tests.simulation.oracle import UPSTREAMS
from tests.simulation.rows import IDLE, Output, Row, decode_record, encode_output
from towpath.query.plan import Edge, Format, InputPlan, OutputPlan, StagePlan
from towpath.stage.event_time import AtEnd
from towpath.stage.metrics import StageMetrics
from towpath.stage.overflow import Overflow
from towpath.stage.ownership import Topics
from towpath.stage.parking import Parking
from towpath.stage.processor import nobody_tells
from towpath.stage.settings import StageSettings
from towpath.stage.tasks import OwnedTask
from towpath.stage.transaction import Transactor

APP = "sim"
STAGE = "count"
INPUT = "rows"
OUTPUT = "counts"
TABLE = "count"

TAKE_ROWS = 64
"""Rows that are taken out of the parking at once."""

_COUNTS = TableSpec(TABLE, 0, head_codec(int, int), json_codec(list[int]))

ROWS_EACH = 3
"""What is appended to a key's list for each of its rows: so that a few rows make a chunk. Its length is the count, and
its note is, too: a lost or doubled chunk is a wrong count."""


_PREFIX_BYTES = len(store_key(changelog_key(0, b"")))


def stage_plan(partitions: int) -> StagePlan:
    """The plan of the only stage; its one operator is the processor itself."""
    return StagePlan(
        app=APP,
        name=STAGE,
        inputs=(InputPlan(INPUT, Format.JSON, {"key": pl.Utf8()}),),
        operators=(),
        outputs=(OutputPlan(OUTPUT, Format.JSON, Edge.HASH, ("key",), partitions, inner=False),),
        tables=(_COUNTS,),
    )


class Arrived(NamedTuple):
    """A row with all that was known of it when it arrived."""

    position: Position
    row: Row
    late: bool


def key_in_store(key: str) -> bytes:
    """Store key of a row's key."""
    return store_key(changelog_key(_COUNTS.id, key.encode()))


def entries_of(key: str, count: int) -> dict[bytes, bytes]:
    """What the changelog has of a key that was counted so often since it was deleted: its keys and values."""
    name = changelog_key(_COUNTS.id, key.encode())
    head: ListHead[int, int] = ListHead()
    chunks: list[list[int]] = []
    for number in range(1, count + 1):
        head, full = appended(head, [number] * ROWS_EACH, number)
        chunks += full
    older = zip(chunk_keys(name, range(head.end)), map(_COUNTS.of_chunks.codec.encode, chunks), strict=True)
    return {name: _COUNTS.codec.encode(head), **dict(older)}


@dataclass
class TaskWork:
    """What the application keeps of one task.

    Attributes:
        task: the task.
        marks: its watermarks.
        parked: ticket → row.
    """

    task: OwnedTask
    marks: Watermarks
    parked: dict[int, Arrived] = field(default_factory=dict)


class Counting:
    """See the module."""

    def __init__(
        self, plan: StagePlan, settings: StageSettings, transactor: Transactor, metrics: StageMetrics, clock: Clock
    ) -> None:
        self._transactor = transactor
        self._work: dict[int, TaskWork] = {}
        self._overflow = Overflow()
        self._gathering = False
        self._gathered: list[tuple[TaskWork, Sequence[Arrived]]] = []

    @property
    def output_bytes(self) -> int:
        """See the protocol."""
        return 0

    @property
    def opaque(self) -> bool:
        """See the protocol."""
        return False

    def timers(self, partition: int) -> dict[int, int] | None:
        """See the protocol."""
        return None

    def own(self, tasks: Mapping[int, OwnedTask], topics: Topics) -> None:
        """See the protocol."""
        self._overflow.own(tasks)
        self._work = {
            partition: known if known is not None and known.task is task else begin(task)
            for partition, task in tasks.items()
            for known in (self._work.get(partition),)
        }

    def process(self, messages: Sequence[Message], *, gather: bool = False) -> None:
        """See the protocol."""
        self._transactor.begin()
        watched = any(work.task.parking is not None for work in self._work.values())
        if not gather or watched:
            self.flush()
        self._gathering = gather and not watched
        try:
            self._process(self._overflow.add(messages))
        finally:
            self._gathering = False

    def flush(self) -> None:
        """See the protocol."""
        gathered, self._gathered = self._gathered, []
        for work, rows in gathered:
            self._count(work, rows)
        for work in {id(work): work for work, _ in gathered}.values():
            self._send_mark(work)

    def resume(self, now_s: float, at_end: AtEnd = nobody_tells) -> bool:
        """See the protocol."""
        moved = [self._take_parked(work) for work in self._work.values()]
        for work in self._work.values():
            _settle(work.task)
        again = self._overflow.take() if self._overflow else []
        if again:
            self._transactor.begin()
            self._process(again)
        return any(moved) or bool(again)

    def committed(self) -> None:
        """See the protocol."""

    def drop(self) -> None:
        """See the protocol."""
        self._work, self._gathered = {}, []

    def report(self, *, last: bool = False) -> None:
        """See the protocol."""

    def _process(self, messages: Sequence[Message]) -> None:
        stops: dict[TopicPartition, int] = {}
        for message in messages:
            source = TopicPartition(message.topic(), message.partition())
            if source not in stops and not self._take(self._work[source.partition], message):
                stops[source] = message.offset()
        if stops:
            self._overflow.keep(messages, stops)
        if self._gathering:
            return  # :meth:`flush` sends marks behind the rows
        for partition in dict.fromkeys(message.partition() for message in messages):
            self._send_mark(self._work[partition])

    def _take_parked(self, work: TaskWork) -> bool:
        """Do what waited and can be done now."""
        parking = work.task.parking
        tickets = parking.take(TAKE_ROWS) if parking is not None and work.parked else []
        if tickets:
            self._transactor.begin()
            work.task.touched = True
            self._count(work, [work.parked.pop(ticket) for ticket in tickets])
            self._send_mark(work)
        return bool(tickets)

    def _take(self, work: TaskWork, message: Message) -> bool:
        """Process or park the rows of a record; False if there is no room for them."""
        record = decode_record(message.value() or b"")
        offset = message.offset()
        rows = [
            Arrived(Position(offset, index), row, work.marks.late(row.event_ms))
            for index, row in enumerate(record.rows)
        ]
        go = rows if work.task.parking is None else self._admit(work, rows)
        if go is None:
            return False
        if self._gathering:
            self._gathered.append((work, go))
        else:
            self._count(work, go)
        work.marks.mark(record.upstream, IDLE_MARK if record.mark_ms == IDLE else record.mark_ms, INPUT, offset)
        work.task.advance(INPUT, offset + 1)
        return True

    def _admit(self, work: TaskWork, rows: list[Arrived]) -> list[Arrived] | None:
        parking = work.task.parking
        if parking is None:
            return rows
        keys = [key_in_store(arrived.row.key) for arrived in rows]
        admission = parking.admit(INPUT, keys, [arrived.position for arrived in rows], elsewhere(work.task))
        if admission.missing and work.task.migration is not None:
            work.task.migration.request(admission.missing)
        if admission.stop is not None:
            return None
        for ticket, index in enumerate(admission.park, admission.first_ticket):
            work.parked[ticket] = rows[index]
        return [rows[index] for index in admission.go]

    def _count(self, work: TaskWork, rows: Sequence[Arrived]) -> None:
        if work.task.state is None:
            return
        lists = work.task.state.lists(TABLE)
        producer = self._transactor.outputs(inner=False)
        for position, row, late in rows:
            key = [row.key.encode()]
            count = 0 if row.delete else len(lists.get_many(key)[0]) // ROWS_EACH + 1
            if row.delete:
                lists.delete_many(key)
            else:
                lists.append_many(key, [[count] * ROWS_EACH], [count])
            self._send(producer, work, Output(*position, row.key, count, late, row.event_ms))

    def _send_mark(self, work: TaskWork) -> None:
        """Send the watermark on, held by rows that wait (R14)."""
        mark = work.marks.advance_out(arrived.row.event_ms for arrived in work.parked.values() if not arrived.late)
        if mark is not None:
            work.task.touched = True
            self._send(self._transactor.outputs(inner=False), work, Output(-1, 0, "", 0, False, mark))

    def _send(self, producer: Producer, work: TaskWork, output: Output) -> None:
        producer.produce(OUTPUT, work.task.id.partition, output.key.encode() or None, encode_output(output))


def begin(task: OwnedTask) -> TaskWork:
    """Take up a task."""
    if task.migrating and task.parking is None:
        task.parking = Parking()
    task.watermarks = Watermarks(UPSTREAMS, task.recorded_watermarks)
    return TaskWork(task, task.watermarks)


def _settle(task: OwnedTask) -> None:
    """Stop looking at rows one by one when nothing is left of the former owner's time."""
    parking = task.parking
    if parking is not None and task.settle() and not task.behind and parking.idle(task.positions):
        task.parking = None


def elsewhere(task: OwnedTask) -> Callable[[list[bytes]], Collection[bytes]]:
    """Which of some store keys have their state elsewhere."""

    def unresolved(keys: list[bytes]) -> Collection[bytes]:
        if task.state is None or not task.migrating or not keys:
            return ()
        missing = task.state.unresolved(TABLE, [key[_PREFIX_BYTES:] for key in keys])
        return task.state.table(TABLE).store_keys(missing)

    return unresolved
