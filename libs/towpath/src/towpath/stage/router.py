"""From frames to Kafka records: which partition each row goes to, and how rows are packed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from statemgr.errors import RecordTooLargeError
from statemgr.kafka.ports import Producer, TopicInfo
from statemgr.partitioner import partitions_of
from towpath.operators.arrow_frames import encode_frames
from towpath.operators.codec import RecordEncoder
from towpath.operators.json_encode import encode_json, json_series
from towpath.operators.keys import key_series
from towpath.query.plan import KEY_COLUMN, PARTITION, VALUE_COLUMN, Edge, Format, OutputPlan
from towpath_native import WHY_NOT
from towpath_native.strings import Strings

RANDOM_ROWS = 256
"""Rows of a slice on a random edge: small enough to spread a batch, large enough to keep records few."""

MAX_RECORD_BYTES = 1_000_000
"""Largest key + value whatever the topic allows: within the client's own limit, and half of it is plenty for a row."""

OVERHEAD_BYTES = 1_000
"""What Kafka's batch and record headers take of a topic's ``max.message.bytes``; they take about 90."""


def record_limit(info: TopicInfo) -> int:
    """Largest key + value that a topic takes.

    A larger row goes to the dead-letter topic, instead of aborting its transaction for ever (R21).
    """
    allowed = int(info.config.get("max.message.bytes", MAX_RECORD_BYTES + OVERHEAD_BYTES))
    return min(MAX_RECORD_BYTES, allowed - OVERHEAD_BYTES)


class TooLarge(NamedTuple):
    """A row that no record can hold: its task's partition, and its value."""

    partition: int
    value: bytes


class RefusedRow(NamedTuple):
    """A row that can't be a record of its sink: its task's partition, its value as JSON, and why."""

    partition: int
    value: bytes
    reason: str


class Sent(NamedTuple):
    """What became of a frame: bytes produced, rows that are too large, and rows that the sink's schema can't hold."""

    produced: int
    too_large: list[TooLarge]
    refused: Sequence[RefusedRow] = ()


class Router:
    """Writes the rows of one output of a replica."""

    def __init__(self, plan: OutputPlan, topic: TopicInfo, encoder: RecordEncoder | None = None) -> None:
        """``encoder``: of a sink whose schema is in a registry."""
        self._plan = plan
        self._partitions = topic.partitions
        self._limit = record_limit(topic)
        self._turn = 0
        self._encoder = encoder

    @property
    def topic(self) -> str:
        """Topic this router writes."""
        return self._plan.topic

    @property
    def inner(self) -> bool:
        """Whether only Towpath reads the topic."""
        return self._plan.inner

    def send(self, frame: pl.DataFrame, producer: Producer) -> Sent:
        """Produce the rows of a frame, each partition's rows in their order."""
        if self._encoder is not None:
            return self._write_encoded(self._encoder, frame, producer)
        keys = key_series(frame, self._plan.key) if self._plan.key else None
        targets = self._targets(frame, keys)
        if self._plan.format is not Format.ARROW:
            return self._write_records(targets, frame, keys, producer)
        order, parts = _by_target(targets)
        ordered = frame[order]
        produced = 0
        too_large: list[TooLarge] = []
        for target, start, end in parts:
            sent = self._write_frames(target, ordered.slice(start, end - start), producer)
            produced += sent.produced
            too_large += sent.too_large
        return Sent(produced, too_large)

    def mark(self, marks: bytes, producer: Producer) -> int:
        """Tell every task of the next stage of watermarks; gives the bytes produced."""
        for target in range(self._partitions):
            producer.produce(self._plan.topic, target, None, marks)
        return len(marks) * self._partitions

    def _write_records(
        self, targets: npt.NDArray[np.int32], rows: pl.DataFrame, key: pl.Series | None, producer: Producer
    ) -> Sent:
        """One record a row. All are encoded at once: that costs as much for one partition's rows as for all."""
        keys, values = self._records(rows, key)
        return self._produce(targets, rows, keys, values, producer, lambda index: values[index] or b"")

    def _write_encoded(self, encoder: RecordEncoder, rows: pl.DataFrame, producer: Producer) -> Sent:
        """One record a row, with a schema of a registry."""
        encoded = encoder.encode(rows)
        refused: list[RefusedRow] = []
        if encoded.refused:
            places = [each.place for each in encoded.refused]
            owners, letters = rows.get_column(PARTITION), encode_json(rows[places])
            refused = [
                RefusedRow(owners[each.place], value, each.reason)
                for each, value in zip(encoded.refused, letters, strict=True)
            ]
            rows = rows[np.delete(np.arange(rows.height), places)]
        key = key_series(rows, self._plan.key) if self._plan.key else None
        sent = self._produce(
            self._targets(rows, key),
            rows,
            None if key is None else _strings(key),
            encoded.values,
            producer,
            lambda index: encode_json(rows[[index]])[0],
        )
        return sent._replace(refused=refused)

    def _produce(
        self,
        targets: npt.NDArray[np.int32],
        rows: pl.DataFrame,
        keys: Sequence[bytes | None] | None,
        values: Sequence[bytes | None],
        producer: Producer,
        letter: Callable[[int], bytes],
    ) -> Sent:
        """Produce records; ``letter`` gives what a dead letter says of a row that is too large."""
        sizes = _sizes(keys, values)
        large = np.flatnonzero(sizes > self._limit)
        too_large: list[TooLarge] = []
        if len(large):
            owners = rows.get_column(PARTITION)
            too_large = [TooLarge(owners[index], letter(index)) for index in large.tolist()]
            fits = np.flatnonzero(sizes <= self._limit)
            keys, values, targets = _chosen(keys, fits), _chosen(values, fits), targets[fits]
        order, parts = _by_target(targets)
        for target, start, end in parts:
            places = order[start:end]
            producer.produce_batch(self._plan.topic, target, _chosen(keys, places), _chosen(values, places))
        return Sent(int(sizes.sum()), too_large)

    def _write_frames(self, target: int, rows: pl.DataFrame, producer: Producer) -> Sent:
        try:
            payloads = encode_frames(rows, self._limit)
        except RecordTooLargeError:
            if rows.height == 1:
                return Sent(0, [TooLarge(rows.item(0, PARTITION), encode_json(rows)[0])])
            halves = [
                self._write_frames(target, half, producer)
                for half in (rows.head(rows.height // 2), rows.tail(rows.height - rows.height // 2))
            ]
            return Sent(sum(half.produced for half in halves), [row for half in halves for row in half.too_large])
        for payload in payloads:
            producer.produce(self._plan.topic, target, None, payload)
        return Sent(sum(map(len, payloads)), [])

    def _records(
        self, rows: pl.DataFrame, key: pl.Series | None
    ) -> tuple[Sequence[bytes | None] | None, Sequence[bytes | None]]:
        """Keys, None if there are none, and values."""
        if self._plan.format is Format.BYTES:
            return _strings(rows.get_column(KEY_COLUMN)), _strings(rows.get_column(VALUE_COLUMN))
        return None if key is None else _strings(key), _strings(json_series(rows))

    def _targets(self, frame: pl.DataFrame, key: pl.Series | None) -> npt.NDArray[np.int32]:
        """The partition that each row goes to."""
        match self._plan.edge:
            case Edge.HASH:
                return self._round_robin(frame.height) if key is None else self._by_key(key)
            case Edge.FORWARD:
                return frame.get_column(PARTITION).to_numpy() % self._partitions
            case Edge.RANDOM:
                return self._round_robin(frame.height)

    def _by_key(self, key: pl.Series) -> npt.NDArray[np.int32]:
        """By the hash of the key; records of user code may have none, and then go round robin."""
        if not key.null_count():
            return partitions_of(key.to_list(), self._partitions)
        keyless = key.is_null().to_numpy()
        targets = np.empty(len(key), np.int32)
        targets[keyless] = self._round_robin(int(keyless.sum()))
        targets[~keyless] = partitions_of(key.drop_nulls().to_list(), self._partitions)
        return targets

    def _round_robin(self, rows: int) -> npt.NDArray[np.int32]:
        """Slices of rows by turns."""
        slices = max(1, min(self._partitions, rows // RANDOM_ROWS))
        part = np.arange(rows, dtype=np.int32) // max(1, -(-rows // slices))
        first, self._turn = self._turn, (self._turn + slices) % self._partitions
        return (first + part) % self._partitions


_Items = TypeVar("_Items", Sequence[bytes | None], Sequence[bytes | None] | None)


def _strings(series: pl.Series) -> Sequence[bytes | None]:
    """A Binary series as a producer takes it: where it lies, or as objects."""
    return Strings.of_column(series) if WHY_NOT is None else series.to_list()


def _sizes(keys: Sequence[bytes | None] | None, values: Sequence[bytes | None]) -> npt.NDArray[np.int64]:
    """Bytes of each record."""
    return _lengths(values) if keys is None else _lengths(values) + _lengths(keys)


def _lengths(items: Sequence[bytes | None]) -> npt.NDArray[np.int64]:
    if isinstance(items, Strings):
        return items.size
    return np.fromiter((0 if item is None else len(item) for item in items), np.int64, len(items))


def _chosen(items: _Items, places: npt.NDArray[np.intp]) -> _Items:
    if items is None:
        return None
    return items.at(places) if isinstance(items, Strings) else [items[place] for place in places.tolist()]


def _by_target(targets: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.intp], list[tuple[int, int, int]]]:
    """The rows' places by target, each target's in order; and each target with the stretch of places that is its."""
    order = np.argsort(targets, kind="stable")
    found, starts = np.unique(targets[order], return_index=True)
    bounds = [*starts.tolist(), len(order)]
    return order, list(zip(found.tolist(), bounds, bounds[1:], strict=False))
