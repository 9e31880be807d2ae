"""The words of the protocol as types: tasks, partitions, positions."""

from __future__ import annotations

from typing import NamedTuple


class TaskId(NamedTuple):
    """The unit of ownership: one input partition of one stage."""

    stage: str
    partition: int

    def __str__(self) -> str:
        return f"{self.stage}/{self.partition}"


class TopicPartition(NamedTuple):
    """A Kafka partition by name."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


class Position(NamedTuple):
    """A place in an input: record offset, and row within that record.

    An inner edge packs the rows of a batch into one Kafka record, so an offset alone does not name a row.
    """

    offset: int
    row: int = 0
