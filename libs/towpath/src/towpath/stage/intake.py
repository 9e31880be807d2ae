"""From Kafka messages to one frame per batch: a single decode, poison set aside."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.ma  # Polars loads it with the first array that it is given, which would hold up a first batch
import numpy.typing as npt
import polars as pl

from statemgr.kafka.ports import Message
from statemgr.types import TopicPartition
from towpath.errors import StageStoppedError
from towpath.operators.codec import RecordDecoder, decoder_for
from towpath.operators.json_decode import Decoded
from towpath.query.plan import PARTITION, StagePlan


class PoisonRecord(NamedTuple):
    """A record that can't be decoded, and why."""

    message: Message
    reason: str


class Part(NamedTuple):
    """The records of one topic in a batch: messages, their partitions, and how many rows each became."""

    topic: str
    messages: Sequence[Message]
    partitions: Sequence[int]
    rows: npt.NDArray[np.int64]


class Origin(NamedTuple):
    """Where the rows of a batch come from: for each row its input partition, the record's offset, and its place in it.

    Attributes:
        sources: the input partitions of the batch.
        source: int32 array, index into ``sources``.
        partition: int32 array.
        offset: int64 array.
        row: int64 array.
    """

    sources: Sequence[TopicPartition]
    source: npt.NDArray[np.int32]
    partition: npt.NDArray[np.int32]
    offset: npt.NDArray[np.int64]
    row: npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """What a poll brought.

    Attributes:
        frame: decoded rows with ``__partition``, each partition's rows in input order; None if there are none.
        next_offsets: offset after the last record taken, for every partition that brought any.
        records: number of Kafka records, poison included.
        poison: records that can't be decoded.
        oldest_ms: smallest append time of the batch, in ms since the epoch.
        parts: what the rows were decoded from, in their order.
    """

    frame: pl.DataFrame | None
    next_offsets: dict[TopicPartition, int]
    records: int
    poison: list[PoisonRecord]
    oldest_ms: int
    parts: Sequence[Part] = ()

    def touches(self, partitions: Collection[int]) -> bool:
        """Whether there are records of one of these tasks."""
        return any(source.partition in partitions for source in self.next_offsets)

    def origin(self) -> Origin:
        """Where the rows come from; computed only for those who ask."""
        sources = list(self.next_offsets)
        place = {source: index for index, source in enumerate(sources)}
        index = [place[TopicPartition(part.topic, partition)] for part in self.parts for partition in part.partitions]
        partition = [partition for part in self.parts for partition in part.partitions]
        offset = [message.offset() for part in self.parts for message in part.messages]
        rows = np.concatenate([part.rows for part in self.parts])
        before = np.repeat(np.cumsum(rows) - rows, rows)
        return Origin(
            sources=sources,
            source=np.repeat(np.array(index, np.int32), rows),
            partition=np.repeat(np.array(partition, np.int32), rows),
            offset=np.repeat(np.array(offset, np.int64), rows),
            row=np.arange(len(before), dtype=np.int64) - before,
        )


class Intake:
    """Decodes the inputs of a stage."""

    def __init__(self, plan: StagePlan) -> None:
        self._decoders: dict[str, RecordDecoder] = {item.topic: decoder_for(item) for item in plan.inputs}

    def read(self, messages: Sequence[Message]) -> Batch:
        """Decode a batch; bad records are set aside.

        Raises:
            StageStoppedError: an inner edge holds records of another version of the query.
        """
        groups = _by_topic(messages)
        frames: list[pl.DataFrame] = []
        poison: list[PoisonRecord] = []
        next_offsets: dict[TopicPartition, int] = {}
        oldest_ms: list[int] = []
        parts: list[Part] = []
        for topic, group in groups.items():
            partitions = [message.partition() for message in group]
            ends = _ends(partitions)
            next_offsets |= {
                TopicPartition(topic, partition): group[last].offset() + 1 for partition, (_, last) in ends.items()
            }
            oldest_ms += [group[first].timestamp()[1] for first, _ in ends.values()]
            decoded = self._decode(topic, group)
            parts.append(Part(topic, group, partitions, decoded.rows))
            poison += [PoisonRecord(group[bad.index], bad.reason) for bad in decoded.bad]
            if decoded.frame.height:
                owners = np.repeat(np.array(partitions, dtype=np.int32), decoded.rows)
                frames.append(decoded.frame.with_columns(pl.Series(PARTITION, owners)))
        return Batch(
            frame=pl.concat(frames, how="diagonal") if frames else None,
            next_offsets=next_offsets,
            records=len(messages),
            poison=poison,
            oldest_ms=min(oldest_ms),
            parts=parts,
        )

    def _decode(self, topic: str, group: Sequence[Message]) -> Decoded:
        values, keys = [message.value() for message in group], [message.key() for message in group]
        try:
            return self._decoders[topic].decode(values, keys)
        except StageStoppedError as error:
            raise StageStoppedError(f"{topic}: {error}") from error


def _by_topic(messages: Sequence[Message]) -> dict[str, list[Message]]:
    groups: dict[str, list[Message]] = {}
    for message in messages:
        groups.setdefault(message.topic(), []).append(message)
    return groups


def _ends(partitions: Sequence[int]) -> dict[int, tuple[int, int]]:
    """Partition → places of its first and its last record in the batch; the loops over records run in C."""
    places = range(len(partitions))
    first = dict(zip(reversed(partitions), reversed(places), strict=True))
    last = dict(zip(partitions, places, strict=True))
    return {partition: (first[partition], last[partition]) for partition in last}
