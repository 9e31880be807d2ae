"""Changelogged, movable RocksDB state for Kafka stream processors.

The parts, from the bottom: :mod:`statemgr.store` (a task's committed bytes), :mod:`statemgr.changelog` (recovery),
:mod:`statemgr.state` (typed tables behind a write-back cache), :mod:`statemgr.partitioner`, and
:mod:`statemgr.kafka` (the edge to the broker).
"""

from statemgr.state import TableSpec, TaskState, ValueTable, bytes_codec, json_codec
from statemgr.types import Position, TaskId, TopicPartition

__all__ = [
    "Position",
    "TableSpec",
    "TaskId",
    "TaskState",
    "TopicPartition",
    "ValueTable",
    "bytes_codec",
    "json_codec",
]
