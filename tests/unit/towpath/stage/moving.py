"""A task that changes owners while its state stays behind: the real processor, driven by hand.

Partition 0 is the task that moves; partition 1 belongs to one that never waits for anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import polars as pl

from statemgr.control.records import Layer
from statemgr.kafka.ports import Message, TopicSpec
from statemgr.layout import PROGRESS_KEY, store_key
from statemgr.migration.layered import LayeredStore, begin
from statemgr.progress import Progress, decode_progress
from statemgr.state import TableSpec, TaskState, json_codec
from statemgr.store import MemoryBackend, StoreMeta
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TaskId
from tests.unit.towpath.stage.plans import APP, CHANGELOG, DEAD, SINK, SOURCE
from tests.unit.towpath.stage.test_intake import Plain
from towpath.operators.arrow_frames import encode_frames
from towpath.operators.count import KeyedCount
from towpath.operators.process import KeyedProcess
from towpath.operators.rows import Filter, MapBatches, RequireKey, WithColumns
from towpath.query.plan import Edge, Format, InputPlan, Operator, OperatorPlan, OutputPlan, StagePlan
from towpath.stage.metrics import StageMetrics
from towpath.stage.ownership import Topics
from towpath.stage.parking import Parking
from towpath.stage.processor import FrameProcessor
from towpath.stage.settings import Guarantee, StageSettings
from towpath.stage.tasks import OwnedTask
from towpath.stage.transaction import TaskChanges, Transactor
from towpath.testing.records import read_records

SCHEMA = {"auction": pl.Int64, "n": pl.Int64}
BAD, DROPPED, REFUSED = 13, 14, 15
"""Auctions at which the batch function fails, which the filter drops, and which the keyed function refuses."""

Record = Sequence[tuple[int | None, int]] | None
"""Rows (auction, number) of an input record; None: a damaged one. JSON records have one row."""


def fail_at_bad(rows: pl.DataFrame) -> pl.DataFrame:
    if BAD in rows.get_column("auction").to_list():
        raise ValueError("no such auction")
    return rows


def count_one(row: Mapping[str, Any], state: Any) -> list[dict[str, Any]]:
    if row["auction"] == REFUSED:
        raise ValueError("refused")
    state.set(state.get(0) + 1)
    return [{**row, "count": state.get()}]


def counter(kind: str) -> Operator:
    if kind == "count":
        return KeyedCount(["auction"], "count", "count", each=True)
    return KeyedProcess(["auction"], count_one, {**SCHEMA, "count": pl.Int64()}, "count")


def moving_stage(form: Format = Format.JSON, kind: str = "count") -> StagePlan:
    """Operators of all kinds before and behind the keyed one."""
    steps: dict[str, Any] = {
        "key": lambda: RequireKey(["auction"]),
        "map": lambda: MapBatches(fail_at_bad),
        "filter": lambda: Filter([pl.col("auction") != DROPPED]),
        "keyed": lambda: counter(kind),
        "behind": lambda: WithColumns([(pl.col("count") * 10).alias("tens")]),
    }
    return StagePlan(
        app=APP,
        name="count",
        inputs=(InputPlan(SOURCE, form, SCHEMA),),
        operators=tuple(OperatorPlan(name, make) for name, make in steps.items()),
        outputs=(OutputPlan(SINK, Format.JSON, Edge.FORWARD, (), 2, inner=False),),
        tables=(TableSpec("count", 0, json_codec(int)),),
    )


def messages(form: Format, records: Iterable[Record], partition: int = 0) -> list[Message]:
    """Input records at the offsets 0, 1, …"""
    return [Plain(_value(form, record), offset, partition) for offset, record in enumerate(records)]


def _value(form: Format, record: Record) -> bytes:
    if record is None:
        return b"{"
    if form is Format.ARROW:
        (value,) = encode_frames(pl.DataFrame(record, schema=SCHEMA, orient="row"))
        return value
    ((auction, number),) = record
    return msgspec.json.encode({"auction": auction, "n": number})


class Way:
    """The way of a task's state to its owner: it is brought when the test says so."""

    def __init__(self, base: Mapping[bytes, bytes], store: LayeredStore, parking: Parking) -> None:
        self.requested: list[bytes] = []
        self._base = base
        self._store = store
        self._parking = parking

    @property
    def complete(self) -> bool:
        return self._store.complete

    def request(self, keys: Sequence[bytes]) -> None:
        self.requested += keys

    def advance(self, now_s: float, budget_s: float) -> None:
        """Nothing comes by itself."""

    def fetch(self, bins: Collection[int]) -> None:
        """Nothing comes by itself."""

    def hurry(self) -> None:
        """Nothing comes by itself."""

    def report(self) -> dict[str, Any]:
        return {}

    def bring(self, limit: int) -> None:
        """Install the first requested keys."""
        came, self.requested = self.requested[:limit], self.requested[limit:]
        self._store.install([(key, self._base.get(key)) for key in came])
        self._parking.resolved(came)

    def bring_all(self) -> None:
        """Install every bin; nobody is told which keys came."""
        self._store.install_bins(0, 255, sorted(self._base.items()))
        self._store.complete_bins(0, 255)


class Mover:
    """One owner after another of the two tasks; what was not committed is lost with the owner."""

    def __init__(self, plan: StagePlan, **most: int) -> None:
        self.plan = plan
        self.kafka = FakeKafka()
        self._most = most
        names = {SOURCE: 2, SINK: 2, DEAD: 1, CHANGELOG: 2}
        self.kafka.admin().create([TopicSpec(name, count) for name, count in names.items()], 1, 1.0)
        self._topics = Topics(plan, self.kafka.admin().describe(list(names), 1.0))
        self._transactor = Transactor(self.kafka, APP, "id", "count-0", Guarantee.EXACTLY_ONCE, self.kafka.clock)
        self._epoch = 0
        self.move()

    def move(self) -> None:
        """The next owner: task 0 has none of its state at hand, task 1 all of it."""
        self._epoch += 1
        self._transactor.fence(lambda: False)
        settings = StageSettings(query=APP, stage="count")
        metrics = StageMetrics("count", "count-0")
        self.processor = FrameProcessor(self.plan, settings, self._transactor, metrics, self.kafka.clock)
        self.tasks = {0: self._arrived(), 1: self._complete()}
        self._next = {partition: task.positions[SOURCE] for partition, task in self.tasks.items()}
        self.processor.own(self.tasks, self._topics)

    @property
    def task(self) -> OwnedTask:
        """The task that moves."""
        return self.tasks[0]

    @property
    def way(self) -> Way:
        """How its state comes."""
        assert isinstance(self.task.migration, Way)
        return self.task.migration

    def read(self, records: Sequence[Message], count: int) -> None:
        """Process the next records of each partition, unless it is paused."""
        batch = [
            message
            for message in records
            if not self.tasks[message.partition()].full
            and 0 <= message.offset() - self._next[message.partition()] < count
        ]
        if batch:
            self._next |= {message.partition(): message.offset() + 1 for message in batch}
            self.processor.process(batch)

    def commit(self) -> None:
        """Commit what was done."""
        touched = [task for task in self.tasks.values() if task.touched]
        changes = []
        for task in touched:
            assert task.state is not None
            changes.append(TaskChanges(CHANGELOG, task.id.partition, task.state.changes(), task.progress()))
        self._transactor.commit(changes, {}, APP)
        for task, change in zip(touched, changes, strict=True):
            assert task.state is not None
            assert change.progress_offset is not None
            task.state.apply(self._meta(change.progress_offset, change.progress))
            task.touched = False
        self.processor.committed()

    def finish(self, records: Sequence[Message]) -> None:
        """Bring, read and process everything, and commit."""
        for _ in range(200):
            self.read(records, 3)
            if self.task.migration is not None:
                self.way.bring(10)
            self.processor.resume(0.0)
        self.commit()

    def counts(self, partition: int = 0) -> dict[int, list[int]]:
        """Auction → its counts in the order of a task's output; where rows keep their numbers, they must ascend."""
        found: dict[int, list[int]] = {}
        numbers: dict[int, list[int]] = {}
        for record in read_records(self.kafka, SINK, Format.JSON):
            assert record.value["tens"] == 10 * record.value["count"]
            assert set(record.value) <= {"auction", "n", "count", "tens", "events"}
            if record.partition == partition:
                found.setdefault(record.value["auction"], []).append(record.value["count"])
                numbers.setdefault(record.value["auction"], []).append(record.value.get("n", 0))
        assert all(rows == sorted(rows) for rows in numbers.values())
        return found

    def letters(self) -> Counter[str]:
        """Dead letters: the offset of a damaged record, or the row's number."""
        found: Counter[str] = Counter()
        for record in read_records(self.kafka, DEAD, None):
            headers = record.headers
            if "offset" in headers:
                found[f"{headers['partition']}@{headers['offset']}"] += 1
            else:
                row = msgspec.json.decode(record.value)
                assert set(row) == set(SCHEMA)
                found[f"{headers['partition']}#{row['n']}"] += 1
        return found

    def progress(self, partition: int = 0) -> Progress | None:
        """The last progress record of a task."""
        found = [
            record.value
            for record in read_records(self.kafka, CHANGELOG, None)
            if record.partition == partition and record.key == PROGRESS_KEY
        ]
        return decode_progress(found[-1]) if found else None

    def _arrived(self) -> OwnedTask:
        base = self._base(0)
        local = MemoryBackend().open(TaskId("count", 0), self._epoch)
        store = begin(local, [Layer(holder="before", epoch=self._epoch - 1)], self._meta(0, None))
        progress = self.progress()
        inputs = {} if progress is None else progress.inputs
        parking = Parking(inputs, **self._most)
        task = self._owned(0, store, parking, inputs[SOURCE].low if inputs else 0)
        task.migration = Way(base, store, parking)
        return task

    def _complete(self) -> OwnedTask:
        store = MemoryBackend().open(TaskId("count", 1), self._epoch)
        store.put_raw(self._base(1).items())
        progress = self.progress(1)
        return self._owned(1, store, None, 0 if progress is None else progress.inputs[SOURCE].low)

    def _owned(self, partition: int, store: Any, parking: Parking | None, position: int) -> OwnedTask:
        id_ = TaskId("count", partition)
        state = TaskState(id_, self._epoch, store, self.plan.tables)
        return OwnedTask(id_, self._epoch, {SOURCE: position}, {}, state, parking=parking)

    def _base(self, partition: int) -> dict[bytes, bytes]:
        """The task's committed state as store entries."""
        return {
            store_key(record.key): record.value
            for record in read_records(self.kafka, CHANGELOG, None)
            if record.partition == partition and record.key not in (None, PROGRESS_KEY)
        }

    def _meta(self, offset: int, progress: Progress | None) -> StoreMeta:
        return StoreMeta("changelog", offset, 0, self._epoch, progress)
