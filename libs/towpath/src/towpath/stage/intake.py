"""From Kafka messages to one frame per batch: a single decode, poison set aside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import polars as pl
from statemgr.errors import CodecError
from statemgr.kafka.ports import Message
from statemgr.types import TopicPartition

from towpath.operators.codec import decode_arrow, decode_json
from towpath.query.plan import PARTITION, Format, InputPlan, StagePlan


class Poison(NamedTuple):
    """A record that can't be decoded, and why."""

    message: Message
    reason: str


@dataclass(frozen=True)
class Batch:
    """What a poll brought.

    Attributes:
        frame: decoded rows with ``__partition``, each partition's rows in input order; None if there are none.
        next_offsets: offset after the last record taken, for every partition that brought any.
        records: number of Kafka records, poison included.
        poison: records that can't be decoded.
        oldest_ms: smallest append time of the batch, in ms since the epoch.
    """

    frame: pl.DataFrame | None
    next_offsets: dict[TopicPartition, int]
    records: int
    poison: list[Poison]
    oldest_ms: int


class Intake:
    """Decodes the inputs of a stage."""

    def __init__(self, plan: StagePlan) -> None:
        self._inputs = {item.topic: item for item in plan.inputs}

    def read(self, messages: Sequence[Message]) -> Batch:
        """Decode a batch; never raises for bad records."""
        by_topic: dict[str, list[Message]] = {}
        next_offsets: dict[TopicPartition, int] = {}
        for message in messages:
            topic = message.topic()
            by_topic.setdefault(topic, []).append(message)
            next_offsets[TopicPartition(topic, message.partition())] = message.offset() + 1
        frames: list[pl.DataFrame] = []
        poison: list[Poison] = []
        for topic, group in by_topic.items():
            plan = self._inputs[topic]
            decode = _decode_json_records if plan.format is Format.JSON else _decode_arrow_records
            frame, bad = decode(plan, group)
            poison += bad
            if frame is not None and frame.height:
                frames.append(frame)
        return Batch(
            frame=pl.concat(frames, how="diagonal") if frames else None,
            next_offsets=next_offsets,
            records=len(messages),
            poison=poison,
            oldest_ms=messages[0].timestamp()[1] if messages else 0,
        )


def _decode_json_records(
    plan: InputPlan, messages: Sequence[Message]
) -> tuple[pl.DataFrame | None, list[Poison]]:
    poison = [Poison(message, "the record has no value") for message in messages if message.value() is None]
    present = [message for message in messages if message.value() is not None] if poison else messages
    decoded = decode_json([message.value() or b"" for message in present], plan)
    if decoded.bad:
        poison += [Poison(present[index], reason) for index, reason in decoded.bad]
        broken = {index for index, _ in decoded.bad}
        present = [message for index, message in enumerate(present) if index not in broken]
    columns = [pl.Series(PARTITION, [message.partition() for message in present], dtype=pl.Int32)]
    if plan.key_column is not None:
        columns.append(pl.Series(plan.key_column, [_text(message.key()) for message in present], dtype=pl.String))
    return decoded.frame.with_columns(columns), poison


def _decode_arrow_records(
    plan: InputPlan, messages: Sequence[Message]
) -> tuple[pl.DataFrame | None, list[Poison]]:
    frames: list[pl.DataFrame] = []
    poison: list[Poison] = []
    for message in messages:
        try:
            frame = decode_arrow(message.value() or b"", plan)
        except CodecError as error:
            poison.append(Poison(message, str(error)))
            continue
        frames.append(frame.with_columns(pl.lit(message.partition(), dtype=pl.Int32).alias(PARTITION)))
    return (pl.concat(frames, how="diagonal") if frames else None), poison


def _text(key: bytes | None) -> str | None:
    return None if key is None else key.decode("utf-8", errors="replace")
