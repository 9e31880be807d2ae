"""Writes the input of a driven query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import polars as pl

from statemgr.partitioner import partition_of
from statemgr.testing.kafka import FakeKafka
from towpath.operators.arrow_frames import encode_frames
from towpath.query.plan import RESERVED_PREFIX, Format, InputPlan, StagePlan

Row = Mapping[str, Any] | bytes | str | None
"""An input record: a dict (written as JSON), text or bytes as they are, None for a tombstone."""


class InputWriter:
    """Writes source topics, and the inner edges of a stage that is driven alone."""

    def __init__(self, kafka: FakeKafka, stages: Iterable[StagePlan]) -> None:
        self._kafka = kafka
        self._inputs = {item.topic: item for stage in stages for item in stage.inputs}
        self._producer = kafka.producer(transactional_id=None, name="driver-writer")
        self._turns: dict[str, int] = {}

    def write(
        self, topic: str, rows: Sequence[Row], partition: int | None, keys: Sequence[bytes | None] | None
    ) -> None:
        """See :meth:`towpath.testing.StageDriver.pipe`."""
        values = self._values(topic, rows)
        for value, key in zip(values, keys or [None] * len(values), strict=True):
            self._producer.produce(topic, self._place(topic, key) if partition is None else partition, key, value)
        self._producer.flush(1.0)

    def _values(self, topic: str, rows: Sequence[Row]) -> list[bytes | None]:
        item = self._inputs.get(topic)
        if item is None:
            raise LookupError(f"no stage reads topic {topic!r}; inputs: {', '.join(sorted(self._inputs))}")
        if item.declared is not None and any(isinstance(row, Mapping | str) for row in rows):
            raise TypeError(f"topic {topic!r} is in {item.format}: give its records as bytes, as a serialiser does")
        if item.format is Format.ARROW and all(isinstance(row, Mapping) for row in rows):
            return list(encode_frames(_frame(item, rows)))
        return [_encoded(row) for row in rows]

    def _place(self, topic: str, key: bytes | None) -> int:
        count = self._kafka.cluster.topics[topic].info.partitions
        if key is not None:
            return partition_of(key, count)
        turn = self._turns.get(topic, 0)
        self._turns[topic] = turn + 1
        return turn % count


def _encoded(row: Row) -> bytes | None:
    match row:
        case None | bytes():
            return row
        case str():
            return row.encode()
        case _:
            return msgspec.json.encode(row)


def _frame(item: InputPlan, rows: Sequence[Any]) -> pl.DataFrame:
    reserved = dict.fromkeys(name for row in rows for name in row if name.startswith(RESERVED_PREFIX))
    schema = {**item.schema, **dict.fromkeys(reserved, pl.Int64())}
    return pl.DataFrame(rows, schema=schema, orient="row")
