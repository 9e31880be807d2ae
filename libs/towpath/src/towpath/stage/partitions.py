"""How many tasks a stage has: as many as its inputs have partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from statemgr.errors import TopicMismatchError, TopicMissingError
from statemgr.kafka.ports import TopicInfo


class _Input(Protocol):
    @property
    def topic(self) -> str: ...

    @property
    def partitions(self) -> int | None: ...


class _Stage(Protocol):
    """What counts of a stage's plan, or of its outline."""

    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> Sequence[_Input]: ...

    @property
    def stateful(self) -> bool: ...


def input_partitions(plan: _Stage, found: Mapping[str, TopicInfo]) -> int:
    """Number of tasks of a stage: the partition count that its inputs share.

    Raises:
        TopicMissingError: a source topic does not exist.
        TopicMismatchError: a stateful stage's inputs differ in their partition counts.
    """
    counts: dict[str, int] = {}
    for item in plan.inputs:
        if item.partitions is not None:
            counts[item.topic] = item.partitions
        elif item.topic in found:
            counts[item.topic] = found[item.topic].partitions
        else:
            raise TopicMissingError(
                f"source topic {item.topic} does not exist: create it first "
                "(towpath topics with the query's module and --source-partitions 8, or "
                f"kafka-topics --create --topic {item.topic} --partitions 8)"
            )
    if plan.stateful and len(set(counts.values())) > 1:
        text = ", ".join(f"{topic}: {count}" for topic, count in counts.items())
        raise TopicMismatchError(f"the inputs of stage {plan.name} must have equal partition counts ({text})")
    return max(counts.values())
