"""What is checked when a run has come to rest."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from statemgr.layout import TOMBSTONE_TABLE, changelog_topic, scratch_task, store_key
from statemgr.store import StoreMeta
from statemgr.store.base import UNFINISHED_KEY
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TaskId, TopicPartition
from tests.simulation.application import APP, INPUT, OUTPUT, STAGE, key_in_store
from tests.simulation.disks import Disk
from tests.simulation.invariants import LogWatch, TaskHistory, store_differences
from tests.simulation.oracle import Expected, compute, differences
from tests.simulation.rows import Output, decode_output

_TOMBSTONE = TOMBSTONE_TABLE.to_bytes(2, "big")


def outcome_differences(kafka: FakeKafka, partitions: int, watch: LogWatch) -> Iterator[str]:
    """Outputs and state against the batch computation over the input (I2, I3), and the changelog alone (I5)."""
    for partition in range(partitions):
        expected = compute(_records(kafka, INPUT, partition))
        yield from differences(partition, expected, _outputs(kafka, partition))
        yield from _state_differences(kafka, partition, expected, watch.of(TaskId(STAGE, partition)))


def disk_differences(disks: Mapping[str, Disk], watch: LogWatch, topic_id: str) -> Iterator[str]:
    """Every store on every disk against what the changelog says as of the store's own offset (I4)."""
    for name, disk in disks.items():
        for task, epoch in disk.copies():
            content = disk.stores._contents[task][epoch]
            if content.meta is not None and content.meta.topic_id == topic_id:
                at = f"store {task}@{epoch} of {name}"
                whose = TaskId(STAGE, task.partition)
                scratch = task == scratch_task(whose)
                yield from _store_differences(
                    at, epoch, content.entries, content.meta, watch.of(whose), scratch=scratch
                )


def _store_differences(
    at: str, epoch: int, entries: dict[bytes, bytes], meta: StoreMeta, history: TaskHistory, *, scratch: bool
) -> Iterator[str]:
    """Exactly as of the store's X, if its owner has committed; a copy of a store that is written may have newer values.

    What was made of a changelog that is written on may also have older ones, where the one at X was compacted away. The
    changelog's tail makes all of them exact before the first row.
    """
    mine = {key: value for key, value in entries.items() if len(key) > 1}
    tombstones = frozenset(key[:1] + key[3:] for key in mine if key.startswith(_TOMBSTONE, 1))
    values = {key: value for key, value in mine.items() if not key.startswith(_TOMBSTONE, 1)}
    if meta.progress is not None and meta.progress.epoch == epoch:
        yield from store_differences(at, values, tombstones, lambda key: [history.value_at(key, meta.offset)])
    elif UNFINISHED_KEY in entries or scratch:
        yield from store_differences(at, values, tombstones, lambda key: history.values_around(key, meta.offset))
    else:
        yield from store_differences(at, values, tombstones, lambda key: history.values_from(key, meta.offset))


def _state_differences(kafka: FakeKafka, partition: int, expected: Expected, history: TaskHistory) -> Iterator[str]:
    wanted = {key_in_store(key): str(count).encode() for key, count in expected.counts.items()}
    committed = history.state_at(history.end)
    if committed != wanted:
        yield f"partition {partition}: committed state is {committed}, not {wanted} (I2)"
    folded = _fold(_records(kafka, changelog_topic(APP, STAGE), partition, keyed=True))
    if folded != wanted:
        yield f"partition {partition}: the changelog alone gives {folded}, not {wanted} (I5)"


def _fold(records: list[tuple[bytes, bytes | None]]) -> dict[bytes, bytes]:
    last = {store_key(key): value for key, value in records if len(key) > 2}
    return {key: value for key, value in last.items() if value is not None}


def _outputs(kafka: FakeKafka, partition: int) -> list[Output]:
    return [decode_output(value) for _, value in _records(kafka, OUTPUT, partition)]


def _records(kafka: FakeKafka, topic: str, partition: int, *, keyed: bool = False) -> list[tuple]:
    """Committed records of a partition: (offset, value), or (key, value)."""
    log = kafka.cluster.log(TopicPartition(topic, partition))
    entries, _ = log.read(log.bounds.start, 1_000_000, read_committed=True)
    return [(entry.key if keyed else entry.offset, entry.value) for entry in entries]
