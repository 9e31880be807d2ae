"""From Kafka messages to one frame per batch: a single decode, poison set aside."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
from towpath.operators.decoded import Decoded
from towpath.operators.marks import Marks
from towpath.query.plan import PARTITION, Format, StagePlan
from towpath.stage import columns


class PoisonRecord(NamedTuple):
    """A record that can't be decoded, and why."""

    message: Message
    reason: str


class Part(NamedTuple):
    """The records of one topic in a batch.

    Attributes:
        topic: their topic.
        messages: the records.
        partitions: int32 array, the partition of each.
        rows: int64 array, how many rows each became.
        marks: place → watermarks that the record holds instead.
    """

    topic: str
    messages: Sequence[Message]
    partitions: npt.NDArray[np.int32]
    rows: npt.NDArray[np.int64]
    marks: Mapping[int, Marks]


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
        index = [
            place[TopicPartition(part.topic, partition)]
            for part in self.parts
            for partition in part.partitions.tolist()
        ]
        offset = np.concatenate([columns.offsets(part.messages) for part in self.parts])
        rows = np.concatenate([part.rows for part in self.parts])
        before = np.repeat(np.cumsum(rows) - rows, rows)
        return Origin(
            sources=sources,
            source=np.repeat(np.array(index, np.int32), rows),
            partition=np.repeat(np.concatenate([part.partitions for part in self.parts]), rows),
            offset=np.repeat(offset, rows),
            row=np.arange(len(before), dtype=np.int64) - before,
        )


class Intake:
    """Decodes the inputs of a stage."""

    def __init__(self, plan: StagePlan, decoders: Mapping[str, RecordDecoder] | None = None) -> None:
        """``decoders``: by topic; None: those of inputs that need no registry."""
        self._decoders = decoders or {item.topic: decoder_for(item) for item in plan.inputs}
        self._stamped = {item.topic: item.timestamp_column for item in plan.inputs if item.timestamp_column is not None}
        self._keyed = {item.topic for item in plan.inputs if item.format is Format.BYTES or item.key_column is not None}

    def read(self, messages: Sequence[Message]) -> Batch:
        """Decode a batch; bad records are set aside.

        Raises:
            StageStoppedError: an inner edge holds records of another version of the query.
            RegistryUnavailableError: a schema is needed, and the registry does not answer; nothing was taken.
        """
        frames: list[pl.DataFrame] = []
        poison: list[PoisonRecord] = []
        next_offsets: dict[TopicPartition, int] = {}
        oldest_ms: list[int] = []
        parts: list[Part] = []
        for topic, group in columns.by_topic(messages).items():
            partitions = columns.partitions(group)
            starts = columns.run_starts(partitions).tolist()
            for start, end in zip(starts, [*starts[1:], len(group)], strict=True):
                first, last = group[start], group[end - 1]
                oldest_ms.append(first.timestamp()[1])
                next_offsets[TopicPartition(topic, last.partition())] = last.offset() + 1
            decoded = self._decode(topic, group)
            parts.append(Part(topic, group, partitions, decoded.rows, decoded.marks))
            poison += [PoisonRecord(group[bad.index], bad.reason) for bad in decoded.bad]
            if decoded.frame.height:
                owners = np.repeat(partitions, decoded.rows)
                more = [pl.Series(PARTITION, owners)]
                if topic in self._stamped:
                    stamps = np.repeat(columns.timestamps(group), decoded.rows)
                    more.append(pl.Series(self._stamped[topic], stamps, pl.Int64))
                frames.append(decoded.frame.hstack(more))
        return Batch(
            frame=pl.concat(frames, how="diagonal") if frames else None,
            next_offsets=next_offsets,
            records=len(messages),
            poison=poison,
            oldest_ms=min(oldest_ms),
            parts=parts,
        )

    def _decode(self, topic: str, group: Sequence[Message]) -> Decoded:
        keys = columns.keys(group) if topic in self._keyed else []
        try:
            return self._decoders[topic].decode(columns.values(group), keys)
        except StageStoppedError as error:
            raise StageStoppedError(f"{topic}: {error}") from error
