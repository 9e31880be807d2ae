"""What can be seen from outside of a driven stage: its state, its changelog, its lag."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from statemgr.layout import PROGRESS_KEY, changelog_topic, consumer_group, split_changelog_key
from statemgr.state import TableSpec, TaskState
from statemgr.testing.kafka import FakeKafka
from statemgr.types import TopicPartition
from towpath.query.plan import StagePlan
from towpath.testing.records import read_records

_BIN_BYTES = 1
"""A store key is one byte of bin, then the changelog key."""


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
    """Key → value in the stores of these tasks; uncommitted changes are not there.

    Raises:
        AssertionError: a key is in the state of two tasks.
    """
    found: dict[bytes, Any] = {}
    for state in states:
        with state.store.scan() as entries:
            for stored, value in entries:
                table, key = split_changelog_key(stored[_BIN_BYTES:])
                if table == spec.id:
                    if key in found:
                        raise AssertionError(f"key {key!r} is in the state of two tasks: is the input placed by it?")
                    found[key] = spec.codec.decode(value)
    return found


def changelog_state(kafka: FakeKafka, plan: StagePlan, spec: TableSpec[Any]) -> dict[bytes, Any]:
    """Key → value as the changelog alone has them."""
    latest: dict[bytes, bytes | None] = {}
    for record in read_records(kafka, changelog_topic(plan.app, plan.name), None):
        if record.key is not None and record.key != PROGRESS_KEY:
            table, key = split_changelog_key(record.key)
            if table == spec.id:
                latest[key] = record.value
    return {key: spec.codec.decode(value) for key, value in latest.items() if value is not None}


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
