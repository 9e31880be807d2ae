"""Runs a stage's own code once on made-up rows, so that its first batch finds it warm.

::

    records of 64 rows ─▶ intake ─▶ gate ─▶ state "arrives" ─▶ keyed operator ─▶ router ─▶ transaction ─▶ store
    Kafka and store are in memory, and nothing of them is left

Python and Polars take two to four times as long for what they do for the first time, and a newcomer's first batch is
what everybody waits for. Not warmed:

- user code, which may have side effects, is never called. A function of ``process`` is replaced by one that gives a
  made-up row; a chain is cut before the first step that may hold other user code (``filter``, ``select``,
  ``with_columns``, ``map_batches``, event-at-a-time programs), and what comes behind it stays cold;
- RocksDB and the clients of Kafka and of state managers, which have their own ways to be warmed;
- formats whose schemas are in a registry, which nobody is to ask for this: JSON stands in for them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any

import polars as pl
import structlog

from statemgr.control.records import Layer
from statemgr.kafka.ports import Message, TopicSpec
from statemgr.layout import BIN_COUNT, changelog_topic
from statemgr.migration.layered import LayeredStore, begin
from statemgr.state import TaskState
from statemgr.store import MemoryBackend, StoreMeta
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TaskId, TopicPartition
from towpath.operators.arrow_frames import encode_frames
from towpath.operators.bytes_rows import encode_bytes
from towpath.operators.count import KeyedCount
from towpath.operators.json_decode import python_type
from towpath.operators.json_encode import encode_json
from towpath.operators.process import KeyedProcess
from towpath.operators.rows import Keep, RequireKey
from towpath.query.plan import SCHED, Format, InputPlan, Operator, OperatorPlan, OutputPlan, StagePlan
from towpath.stage.chain import gate_of
from towpath.stage.metrics import StageMetrics
from towpath.stage.ownership import Topics
from towpath.stage.processor import FrameProcessor
from towpath.stage.settings import Guarantee, StageSettings
from towpath.stage.tasks import OwnedTask
from towpath.stage.topics import prepare_topics
from towpath.stage.transaction import TaskChanges, Transactor

log = structlog.get_logger()

ROWS = 64
"""Rows of a record: enough for the ways that Polars takes with many, few enough to cost nothing."""

_TASKS = 2
_EPOCH = 1


def warm_up(plan: StagePlan, settings: StageSettings) -> None:
    """Take a stage's first steps where nobody sees them; costs some tens of ms, and fails with a line in the log."""
    if not all(map(_can_be_sampled, plan.inputs)):
        return
    began_s = perf_counter()
    try:
        _run(without_registry(without_user_code(plan)), settings)
    except (Exception, pl.exceptions.PanicException) as error:  # noqa: BLE001 - the stage itself meets what it is
        log.warning("the first batch will be slower: warming up failed", cause=f"{type(error).__name__}: {error}")
    else:
        log.info("warm", took_ms=round((perf_counter() - began_s) * 1000))


def without_user_code(plan: StagePlan) -> StagePlan:
    """The stage as far as its code is all ours; without outputs if that is not the whole of it."""
    operators: list[OperatorPlan] = []
    for item in plan.operators:
        ours = _ours(item.make())
        if ours is None:
            return replace(plan, operators=tuple(operators), outputs=())
        operators.append(OperatorPlan(item.name, lambda operator=ours: operator))  # type: ignore[misc]
    return replace(plan, operators=tuple(operators), outputs=tuple(filter(None, map(_our_ways, plan.outputs))))


def without_registry(plan: StagePlan) -> StagePlan:
    """The stage with JSON in the place of formats whose schemas are in a registry, so that nobody is asked."""
    return replace(
        plan,
        inputs=tuple(
            replace(item, format=Format.JSON, declared=None) if item.declared is not None else item
            for item in plan.inputs
        ),
        outputs=tuple(
            replace(item, format=Format.JSON, declared=None) if item.declared is not None else item
            for item in plan.outputs
        ),
    )


def sample(schema: Mapping[str, Any]) -> pl.DataFrame:
    """Made-up rows, all of them different; null in columns whose type no number can become."""
    number = pl.int_range(ROWS, dtype=pl.Int64, eager=True)
    return pl.DataFrame([_column(name, dtype, number) for name, dtype in schema.items()])


def _ours(operator: Operator) -> Operator | None:
    match operator:
        case Keep() | RequireKey() | KeyedCount():
            return operator
        case KeyedProcess():
            row = sample(operator.schema).row(1, named=True)
            return operator.by(lambda _row, _state: [row])
        case _:
            return None


def _can_be_sampled(item: InputPlan) -> bool:
    """Whether JSON can stand in for a format whose schemas are in a registry, which has types that JSON has not."""
    if item.declared is None:
        return True
    try:
        return all(python_type(dtype) for dtype in item.schema.values())
    except ValueError:
        return False


def _our_ways(output: OutputPlan) -> OutputPlan | None:
    """The output with the ways to it whose code is all ours; None: there is none."""
    ways = tuple(way for way in output.ways if all(_ours(item.make()) is not None for item in way))
    return replace(output, ways=ways) if ways else None


def _column(name: str, dtype: Any, number: pl.Series) -> pl.Series:
    try:
        return (number.cast(pl.String) if dtype == pl.Binary else number).cast(dtype, strict=False).alias(name)
    except pl.exceptions.PolarsError:
        return pl.Series(name, [None] * len(number), dtype=dtype)


class _Way:
    """The way of a made-up task's state: nothing comes, until all has come."""

    complete = False

    def request(self, keys: Sequence[bytes]) -> None:
        """Nobody is asked."""

    def advance(self, now_s: float, budget_s: float) -> None:
        """Nothing comes by itself."""

    def fetch(self, bins: Collection[int]) -> None:
        """Nothing comes by itself."""

    def hurry(self) -> None:
        """Nothing comes by itself."""

    def close(self) -> None:
        """Nothing is under way."""

    def report(self) -> dict[str, Any]:
        """Nobody reads it."""
        return {}


def _run(plan: StagePlan, settings: StageSettings) -> None:
    kafka = FakeKafka()
    plan = _small(plan)
    topics = _make_topics(plan, kafka)
    records = _records(plan, kafka)
    transactor = Transactor(kafka, plan.app, "warm-up", settings.replica, Guarantee.EXACTLY_ONCE, kafka.clock)
    transactor.fence(lambda: False)
    processor = FrameProcessor(plan, settings, transactor, StageMetrics(plan.name, settings.replica), kafka.clock)
    tasks = {partition: _task(plan, partition) for partition in range(topics.tasks)}
    processor.own(tasks, topics)
    processor.process(records)
    for task in tasks.values():
        _bring_state(task)
    processor.resume(0.0)  # sees that all state is here
    processor.resume(0.0)  # goes on with the rows that waited
    _commit(plan, transactor, tasks.values())


def _small(plan: StagePlan) -> StagePlan:
    """The same with few partitions, however many it has."""
    return replace(
        plan,
        inputs=tuple(replace(item, partitions=item.partitions and _TASKS) for item in plan.inputs),
        outputs=tuple(replace(item, partitions=item.partitions and _TASKS) for item in plan.outputs),
    )


def _make_topics(plan: StagePlan, kafka: FakeKafka) -> Topics:
    admin = kafka.admin()
    given = {item.topic: item.partitions for item in plan.inputs} | {
        item.topic: item.partitions for item in plan.outputs
    }
    admin.create([TopicSpec(topic, _TASKS) for topic, partitions in given.items() if partitions is None], 1, 0.0)
    return Topics(plan, prepare_topics(admin, plan, replication=1, wait_s=0.0, stop=bool, pause=kafka.clock.advance))


def _records(plan: StagePlan, kafka: FakeKafka) -> Sequence[Message]:
    """A batch of made-up input, as a consumer gives it."""
    producer = kafka.producer(transactional_id=None, name="warm-up")
    consumer = kafka.consumer(name="warm-up", columns=True)
    sources = [TopicPartition(item.topic, partition) for item in plan.inputs for partition in range(_TASKS)]
    for item in plan.inputs:
        keys, values = _encoded(item)
        for partition in range(_TASKS):
            producer.produce_batch(item.topic, partition, keys, values)
    consumer.assign(dict.fromkeys(sources, 0))
    return consumer.consume(ROWS * len(sources), 0.0)


def _encoded(item: InputPlan) -> tuple[Sequence[bytes | None], Sequence[bytes | None]]:
    schema = {name: dtype for name, dtype in item.schema.items() if name != item.key_column}
    match item.format:
        case Format.BYTES:
            return encode_bytes(sample(schema))
        case Format.ARROW:
            return [None], list(encode_frames(sample({**schema, SCHED: pl.Int64()})))
        case Format.JSON | Format.AVRO | Format.PROTOBUF:  # the last two were replaced
            keys = [str(number).encode() for number in range(ROWS)]
            return keys, list(encode_json(sample(schema)))


def _task(plan: StagePlan, partition: int) -> OwnedTask:
    """A task that has just come; its state has not, where rows can wait for it."""
    id_, positions = TaskId(plan.name, partition), {item.topic: 0 for item in plan.inputs}
    if not plan.stateful:
        return OwnedTask(id_, _EPOCH, positions)
    store = MemoryBackend().open(id_, _EPOCH)
    layered = begin(store, [Layer("warm-up", 0)], StoreMeta("", 0, 0, 0, None))
    state = TaskState(id_, _EPOCH, layered, plan.tables)
    waits = gate_of([item.make() for item in plan.operators]) is not None
    return OwnedTask(id_, _EPOCH, positions, state=state, migration=_Way() if waits else None)


def _bring_state(task: OwnedTask) -> None:
    if isinstance(task.migration, _Way) and task.state is not None and isinstance(task.state.store, LayeredStore):
        task.state.store.complete_bins(0, BIN_COUNT - 1)
        task.migration.complete = True


def _commit(plan: StagePlan, transactor: Transactor, tasks: Collection[OwnedTask]) -> None:
    changelog = changelog_topic(plan.app, plan.name)
    states = [(task, task.state) for task in tasks if task.state is not None]
    changes = [TaskChanges(changelog, task.id.partition, state.changes(), task.progress()) for task, state in states]
    transactor.commit(changes, {}, "")
    for (_, state), change in zip(states, changes, strict=True):
        state.apply(StoreMeta("", change.progress_offset or 0, 0, _EPOCH, change.progress))
