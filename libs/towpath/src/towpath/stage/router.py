"""From frames to Kafka records: which partition each row goes to, and how rows are packed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import polars as pl
from statemgr.kafka.ports import Producer
from statemgr.partitioner import partitions_of

from towpath.operators.codec import encode_arrow, encode_json
from towpath.operators.keys import key_bytes
from towpath.query.plan import PARTITION, Edge, Format, OutputPlan

BY_KEY = -1
"""Partition that lets the client's murmur2 partitioner choose by the record's key."""

RANDOM_ROWS = 256
"""Rows of a slice on a random edge: small enough to spread a batch, large enough to keep records few."""

ARROW_ROWS = 4096
"""First guess at the rows of an Arrow record: at ~120 bytes a row half of Kafka's default limit of 1 MiB."""

ARROW_BYTES = 900_000
"""Largest Arrow record: below Kafka's default ``message.max.bytes`` of 1,048,588 with room for headers."""

JSON_BYTES = 1_000_000
"""Largest JSON value; a larger one goes to the dead-letter topic instead of aborting everybody for ever (R21)."""


class Router:
    """Writes the rows of one output of a replica."""

    def __init__(self, plan: OutputPlan, partitions: int) -> None:
        self._plan = plan
        self._partitions = partitions
        self._turn = 0

    @property
    def topic(self) -> str:
        """Topic this router writes."""
        return self._plan.topic

    def send(self, frame: pl.DataFrame, producer: Producer) -> tuple[int, list[tuple[int, bytes]]]:
        """Produce a frame.

        Returns:
            Bytes produced, and the rows that are too large as (task's partition, value).
        """
        if self._plan.format is Format.ARROW:
            return self._send_arrow(frame, producer), []
        return self._send_json(frame, producer)

    def _send_arrow(self, frame: pl.DataFrame, producer: Producer) -> int:
        produced = 0
        for partition, rows in self._split(frame):
            for payload in _payloads(rows.drop(PARTITION)):
                producer.produce(self._plan.topic, partition, None, payload)
                produced += len(payload)
        return produced

    def _send_json(self, frame: pl.DataFrame, producer: Producer) -> tuple[int, list[tuple[int, bytes]]]:
        produced = 0
        too_large: list[tuple[int, bytes]] = []
        for partition, rows in self._sink_groups(frame):
            values = encode_json(rows)
            keys: list[bytes] | None = key_bytes(rows, self._plan.key) if self._plan.key else None
            if max(map(len, values), default=0) > JSON_BYTES:
                owners = rows.get_column(PARTITION).to_list()
                too_large += [(owners[i], value) for i, value in enumerate(values) if len(value) > JSON_BYTES]
                fits = [i for i, value in enumerate(values) if len(value) <= JSON_BYTES]
                values = [values[i] for i in fits]
                keys = None if keys is None else [keys[i] for i in fits]
            if values:
                producer.produce_batch(self._plan.topic, partition, keys or [None] * len(values), values)
                produced += sum(map(len, values))
        return produced, too_large

    def _sink_groups(self, frame: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
        if self._plan.key:
            return iter([(BY_KEY, frame)])
        return self._split(frame)

    def _split(self, frame: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
        match self._plan.edge:
            case Edge.HASH:
                targets = partitions_of(key_bytes(frame, self._plan.key), self._partitions)
                return _by_target(frame, targets)
            case Edge.FORWARD:
                targets = frame.get_column(PARTITION).to_numpy() % self._partitions
                return _by_target(frame, targets)
            case Edge.RANDOM:
                return self._round_robin(frame)

    def _round_robin(self, frame: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
        slices = max(1, min(self._partitions, frame.height // RANDOM_ROWS))
        rows = -(-frame.height // slices)
        for part in frame.iter_slices(rows):
            yield self._turn, part
            self._turn = (self._turn + 1) % self._partitions


def _by_target(frame: pl.DataFrame, targets: np.ndarray) -> Iterator[tuple[int, pl.DataFrame]]:
    """Rows by target partition; a stable sort keeps each target's rows in order."""
    order = np.argsort(targets, kind="stable")
    ordered = frame[order]
    found, starts = np.unique(targets[order], return_index=True)
    bounds = [*starts.tolist(), frame.height]
    for index, target in enumerate(found.tolist()):
        yield int(target), ordered.slice(bounds[index], bounds[index + 1] - bounds[index])


def _payloads(frame: pl.DataFrame) -> Iterator[bytes]:
    """Arrow records of bounded size: too large a slice is halved."""
    for part in frame.iter_slices(ARROW_ROWS):
        payload = encode_arrow(part)
        if len(payload) <= ARROW_BYTES or part.height == 1:
            yield payload
        else:
            half = part.height // 2
            yield from _payloads(part.head(half))
            yield from _payloads(part.tail(part.height - half))
