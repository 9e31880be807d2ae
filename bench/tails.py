"""What an outsider sees: the control log and the committed outputs, each record with the time at which it came."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from statemgr.control.records import ControlRecord, decode_control
from statemgr.kafka.confluent import ConfluentKafka
from statemgr.types import TopicPartition
from tests.harness.topics import partitions_of

_WAIT_S = 0.002
_BATCH = 10_000
_QUERY_S = 10.0
_END_S = 10.0


class Tail(ABC):
    """Reads a topic read_committed from its present end, in a thread."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        kafka = ConfluentKafka(bootstrap)
        self._consumer: Any = kafka.consumer(read_committed=True, name=f"bench-{topic}")
        partitions = partitions_of(kafka, topic)
        self._consumer.assign({at: self._end(at) for at in partitions})
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=topic, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(_END_S)
        self._consumer.close()

    @abstractmethod
    def take(self, messages: list[Any], now_s: float) -> None:
        """Keep what came at that time."""

    def _end(self, at: TopicPartition) -> int:
        return int(self._consumer.bounds(at, _QUERY_S).end)

    def _run(self) -> None:
        while not self._stop.is_set():
            messages = self._consumer.consume(_BATCH, _WAIT_S)
            if messages:
                self.take(messages, time.time())


@dataclass(frozen=True)
class Seen:
    """A control record, when it was appended (by its writer's clock) and when it was seen; seconds since the epoch."""

    record: ControlRecord
    written_s: float
    seen_s: float


class ControlTail(Tail):
    """The control log's records."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(bootstrap, topic)
        self.seen: list[Seen] = []

    def take(self, messages: list[Any], now_s: float) -> None:
        """See :class:`Tail`."""
        for message in messages:
            record = decode_control(message.key(), message.value())
            self.seen.append(Seen(record, message.timestamp()[1] / 1000, now_s))


@dataclass(frozen=True)
class Outputs:
    """Outputs in the order in which they became visible, as columns; times in seconds since the epoch."""

    visible_s: NDArray[np.float64]
    sched_s: NDArray[np.float64]
    partition: NDArray[np.int32]
    key: NDArray[np.int64]

    def where(self, mask: NDArray[np.bool_]) -> Outputs:
        """Some of them."""
        return Outputs(self.visible_s[mask], self.sched_s[mask], self.partition[mask], self.key[mask])

    @property
    def latency_s(self) -> NDArray[np.float64]:
        """From the intended time of emission until it was visible."""
        return self.visible_s - self.sched_s


class _Row(msgspec.Struct):
    auction: int
    sched_ms: int


@dataclass
class _Columns:
    visible_s: list[float] = field(default_factory=list)
    sched_s: list[float] = field(default_factory=list)
    partition: list[int] = field(default_factory=list)
    key: list[int] = field(default_factory=list)


class OutputTail(Tail):
    """The sink's records."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(bootstrap, topic)
        self._columns = _Columns()
        self._decode = msgspec.json.Decoder(_Row).decode

    def take(self, messages: list[Any], now_s: float) -> None:
        """See :class:`Tail`."""
        columns = self._columns
        rows = [self._decode(message.value()) for message in messages]
        columns.sched_s += [row.sched_ms / 1000 for row in rows]
        columns.key += [row.auction for row in rows]
        columns.partition += [message.partition() for message in messages]
        columns.visible_s += [now_s] * len(rows)

    def so_far(self) -> Outputs:
        """What has become visible until now."""
        columns = self._columns
        count = len(columns.visible_s)
        return Outputs(
            np.array(columns.visible_s[:count]),
            np.array(columns.sched_s[:count]),
            np.array(columns.partition[:count], dtype=np.int32),
            np.array(columns.key[:count], dtype=np.int64),
        )
