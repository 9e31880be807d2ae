"""How a consumer takes records from its client: one object a record, or columns."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, cast

from confluent_kafka import Consumer as Client
from confluent_kafka import KafkaError
from confluent_kafka import Message as ClientMessage

from statemgr.kafka.ports import Message
from statemgr.types import TopicPartition
from towpath_native import WHY_NOT

if TYPE_CHECKING:
    from towpath_native.fetcher import Fault as ClientFault


class Fault(NamedTuple):
    """An error that came among the records.

    Attributes:
        error: what the client says.
        at: the partition that it is about; None: the whole client.
        offset: where in that partition; None: nowhere.
    """

    error: KafkaError
    at: TopicPartition | None
    offset: int | None


class Taken(NamedTuple):
    """What one look brought: records, and errors behind them."""

    records: Sequence[Message]
    faults: Sequence[Fault] = ()


FIRST_AGAIN_S = 0.02
LAST_AGAIN_S = 10.0
"""First and last time between two routings of a partition: each is twice the one before."""


class Routing(NamedTuple):
    """When a partition is routed once more, and how long after the time before."""

    at_s: float
    after_s: float


class Reader(Protocol):
    """Takes from one client."""

    def expect(self, partitions: Iterable[TopicPartition]) -> None:
        """To be called before partitions are assigned, each time."""
        ...

    def take(self, most: int, timeout_s: float) -> Taken:
        """Whatever is there, at most ``most`` records; waits up to ``timeout_s`` for the first.

        Raises:
            KafkaException: the client refuses.
        """
        ...

    def close(self) -> None:
        """To be called before the client is closed."""
        ...


def reader_of(client: Client, *, columns: bool) -> Reader:
    """A reader of this client; of columns if they are asked for and can be had here."""
    return ColumnReader(client) if columns and WHY_NOT is None else MessageReader(client)


class MessageReader:
    """Gives the client's own messages."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def expect(self, partitions: Iterable[TopicPartition]) -> None:
        """See :class:`Reader`."""

    def take(self, most: int, timeout_s: float) -> Taken:
        """See :class:`Reader`."""
        # librdkafka waits until it has as many as asked for, so only the first record is waited for.
        messages = self._client.consume(most, 0)
        if not messages and timeout_s > 0:
            messages = self._client.consume(1, timeout_s)
            if messages and most > 1:
                messages += self._client.consume(most - 1, 0)
        if not any(map(ClientMessage.error, messages)):
            return Taken(cast("list[Message]", messages))
        good = [message for message in messages if message.error() is None]
        return Taken(cast("list[Message]", good), [_fault(message) for message in messages if message.error()])

    def close(self) -> None:
        """See :class:`Reader`."""


class ColumnReader:
    """Gives :class:`towpath_native.records.Records`."""

    def __init__(self, client: Client) -> None:
        from towpath_native.fetcher import Fetcher  # with NumPy, which readers of single messages do without

        self._fetcher = Fetcher(client)
        self._fresh: dict[TopicPartition, Routing] = {}

    def expect(self, partitions: Iterable[TopicPartition]) -> None:
        """See :class:`Reader`."""
        now_s = time.monotonic()
        for at in partitions:
            self._fetcher.route(at.topic, at.partition)
            self._fresh[at] = Routing(now_s + FIRST_AGAIN_S, FIRST_AGAIN_S)

    def take(self, most: int, timeout_s: float) -> Taken:
        """See :class:`Reader`."""
        if self._fresh:
            now_s = time.monotonic()
            self._route_again(now_s)
            next_s = min((routing.at_s for routing in self._fresh.values()), default=float("inf"))
            timeout_s = min(timeout_s, max(next_s - now_s, FIRST_AGAIN_S))
        records, faults = self._fetcher.fetch(most, timeout_s)
        return Taken(cast("Sequence[Message]", records), [_named_fault(fault) for fault in faults])

    def close(self) -> None:
        """See :class:`Reader`."""
        self._fetcher.close()

    def _route_again(self, now_s: float) -> None:
        """Route partitions that were assigned of late once more.

        When a partition is given back, librdkafka's own thread takes its route away, whenever it comes to that; one
        that is assigned anew by then would keep its records to itself. What has gathered comes with the new route.
        """
        for at, routing in list(self._fresh.items()):
            if now_s < routing.at_s:
                continue
            self._fetcher.route(at.topic, at.partition)
            if routing.after_s > LAST_AGAIN_S:
                del self._fresh[at]
            else:
                self._fresh[at] = Routing(now_s + 2 * routing.after_s, 2 * routing.after_s)


def _fault(message: Any) -> Fault:
    topic, number = message.topic(), message.partition()
    return Fault(message.error(), _partition(topic, number), message.offset())


def _named_fault(fault: ClientFault) -> Fault:
    offset = fault.offset if fault.offset >= 0 else None
    return Fault(KafkaError(fault.code, fault.text), _partition(fault.topic, fault.partition), offset)


def _partition(topic: str | None, number: int | None) -> TopicPartition | None:
    return None if topic is None or number is None else TopicPartition(topic, number)
