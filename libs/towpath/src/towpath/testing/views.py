"""What can be seen from outside of a driven stage: its state, its changelog, its lag."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any, NamedTuple

from statemgr.layout import (
    CHUNK_TABLES,
    PROGRESS_KEY,
    changelog_topic,
    consumer_group,
    split_changelog_key,
    split_chunk_key,
)
from statemgr.state import TableSpec, TaskState
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TopicPartition
from towpath.query.plan import StagePlan
from towpath.testing.records import read_records

_BIN_BYTES = 1
"""A store key is one byte of bin, then the changelog key."""


class Listed(NamedTuple):
    """A list in state: its rows, oldest first, and what is noted of it."""

    rows: list[Any]
    note: Any


def table_of(plan: StagePlan, name: str) -> TableSpec[Any]:
    """A table of a stage by name.

    Raises:
        LookupError: there is none; the message lists those there are.
    """
    for spec in plan.tables:
        if spec.name == name:
            return spec
    names = ", ".join(spec.name for spec in plan.tables) or "none"
    raise LookupError(f"stage {plan.name!r} has no table {name!r}; its tables: {names}")


def committed_state(states: Iterable[TaskState], spec: TableSpec[Any]) -> dict[bytes, Any]:
    """Key → value in the stores of these tasks, of a list a :class:`Listed`; uncommitted changes are not there.

    Raises:
        AssertionError: a key is in the state of two tasks, or a chunk belongs to no list.
    """
    found: dict[bytes, Any] = {}
    for state in states:
        with state.store.scan() as entries:
            mine = values_of(spec, {stored[_BIN_BYTES:]: value for stored, value in entries})
        for key, value in mine.items():
            if key in found:
                raise AssertionError(f"key {key!r} is in the state of two tasks: is the input placed by it?")
            found[key] = value
    return found


def changelog_state(kafka: FakeKafka, plan: StagePlan, spec: TableSpec[Any]) -> dict[bytes, Any]:
    """Key → value as the changelog alone has them."""
    latest: dict[bytes, bytes | None] = {}
    for record in read_records(kafka, changelog_topic(plan.app, plan.name), None):
        if record.key is not None and record.key != PROGRESS_KEY:
            latest[record.key] = record.value
    return values_of(spec, {key: value for key, value in latest.items() if value is not None})


def values_of(spec: TableSpec[Any], entries: Mapping[bytes, bytes]) -> dict[bytes, Any]:
    """Key → value of a table, of a list a :class:`Listed`, from entries of any tables under their changelog keys.

    Raises:
        AssertionError: a chunk belongs to no list.
    """
    values: dict[bytes, Any] = {}
    chunks: dict[tuple[bytes, int], list[Any]] = {}
    for full, value in entries.items():
        table, key = split_changelog_key(full)
        if table == spec.id:
            values[key] = spec.codec.decode(value)
        elif spec.chunks is not None and table == spec.id + CHUNK_TABLES:
            chunks[split_chunk_key(key)] = spec.chunks.decode(value)
    if spec.chunks is None:
        return values
    lists = {
        key: Listed(
            [*chain.from_iterable(chunks.pop((key, number), ()) for number in range(head.begin, head.end)), *head.rows],
            head.note,
        )
        for key, head in values.items()
    }
    if chunks:
        raise AssertionError(f"chunks of table {spec.name!r} belong to no list: {sorted(chunks)}")
    return lists


def lag_of(kafka: FakeKafka, plan: StagePlan, partitions: Iterable[int] | None = None) -> int:
    """Offsets between what the stage's group shows and the ends of its inputs; of all partitions by default."""
    group = consumer_group(plan.app, plan.name)
    total = 0
    for item in plan.inputs:
        topic = kafka.cluster.topics.get(item.topic)
        count = topic.info.partitions if topic is not None else 0
        for partition in range(count) if partitions is None else partitions:
            if partition < count:
                at = TopicPartition(item.topic, partition)
                bounds = kafka.cluster.log(at).bounds
                shown = kafka.cluster.group_offsets.get((group, at))
                total += bounds.end - (bounds.start if shown is None or shown.offset is None else shown.offset)
    return total
